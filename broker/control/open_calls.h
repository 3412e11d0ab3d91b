// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_OPEN_CALLS_H_
#define BROKER_CONTROL_OPEN_CALLS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "broker/control/caller.h"
#include "broker/control/counts.h"
#include "broker/core/requests.h"

namespace rdmabroker {

// How many calls of a kind may be open at a time.
struct CallBounds {
  size_t of_caller = 0;  // One user's, or one SPIFFE id's.
  size_t of_users = 0;   // Of all who do not administer: fewer than in all, so that an administrator has always room.
  size_t in_all = 0;
};

// Counts the calls of a kind that stay open, by who has made them. Loop thread only.
class OpenCalls {
 public:
  // `kind` begins each refusal.
  OpenCalls(const char* kind, const CallBounds& bounds) : kind_(kind), bounds_(bounds) {}

  // Why the caller may have no further one.
  [[nodiscard]] std::optional<Outcome> RefuseTo(const Caller& caller) const;

  // One more of his, who is named as by WhoIs, and one less.
  void Enter(const std::string& who);
  void Leave(const std::string& who);

 private:
  const char* const kind_;
  const CallBounds bounds_;
  size_t in_all_ = 0;
  Counts<std::string> of_caller_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_OPEN_CALLS_H_
