// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ACCOUNTS_H_
#define BROKER_CONTROL_ACCOUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace rdmabroker {

// The numbers of users and groups, by their names.
struct AccountNumbers {
  std::map<std::string, uint32_t> users;
  std::map<std::string, uint32_t> groups;

  bool operator==(const AccountNumbers&) const = default;
};

// Looks users and groups up in the system's databases, which may block. What is known before is not looked up: names
// keep their numbers, even if they have gone since, or are somebody else's.
class Accounts {
 public:
  explicit Accounts(AccountNumbers known = {}) : known_(std::move(known)) {}

  // NOT_FOUND where there is none, UNAVAILABLE where nobody can tell; both with the name and what to do.
  absl::StatusOr<uint32_t> User(const std::string& name);
  absl::StatusOr<uint32_t> Group(const std::string& name);

  // With those that have been found.
  const AccountNumbers& known() const { return known_; }

 private:
  AccountNumbers known_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ACCOUNTS_H_
