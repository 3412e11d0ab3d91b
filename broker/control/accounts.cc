// SPDX-License-Identifier: Apache-2.0

#include "broker/control/accounts.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// A kind of account, with its function of getpwnam_r(3) or getgrnam_r(3).
template <typename Entry>
struct Database {
  const char* kind;
  const char* tool;
  int (*find)(const char* name, Entry* entry, char* buffer, size_t size, Entry** found);
  uint32_t (*number)(const Entry& entry);
};

constexpr Database<passwd> kUsers = {"user", "useradd", ::getpwnam_r, [](const passwd& entry) { return entry.pw_uid; }};
constexpr Database<group> kGroups = {"group", "groupadd", ::getgrnam_r,
                                     [](const group& entry) { return entry.gr_gid; }};

template <typename Entry>
absl::StatusOr<uint32_t> LookUp(const Database<Entry>& database, const std::string& name,
                                std::map<std::string, uint32_t>& known) {
  if (const auto number = known.find(name); number != known.end()) return number->second;
  Entry entry = {};
  Entry* found = nullptr;
  int error = 0;
  // No name has these in it (passwd(5)).
  if (name.find_first_of(std::string("\0\n", 2)) == std::string::npos) {
    // A group with more members than fit is found nevertheless.
    std::vector<char> buffer(1 << 10);
    while ((error = database.find(name.c_str(), &entry, buffer.data(), buffer.size(), &found)) == ERANGE) {
      buffer.resize(buffer.size() * 2);
    }
  }
  const std::string who = absl::StrCat(database.kind, " \"", absl::CHexEscape(name), "\"");
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("the ", who, " cannot be looked up (", std::strerror(error),
                                               "); see to what /etc/nsswitch.conf names"));
  }
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no ", who, "; make it with ", database.tool));
  }
  return known[name] = database.number(entry);
}

}  // namespace

absl::StatusOr<uint32_t> Accounts::User(const std::string& name) { return LookUp(kUsers, name, known_.users); }

absl::StatusOr<uint32_t> Accounts::Group(const std::string& name) { return LookUp(kGroups, name, known_.groups); }

}  // namespace rdmabroker
