// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_NOTIFICATION_H_
#define BROKER_KEEPER_NOTIFICATION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rdmabroker::keeper {

// What one message of sd_notify(3) asks for, with systemd 252's answers to what that page leaves open. A BARRIER=1 asks
// for nothing: the descriptor that came with it is closed, as all are that are not to be stored.
struct Notification {
  enum class State { kUnchanged, kReady, kStopping };
  enum class Watchdog { kUnchanged, kPing, kTrigger };
  enum class Descriptors { kUnchanged, kStore, kRemove };

  State state = State::kUnchanged;
  std::optional<std::string> status;
  Watchdog watchdog = Watchdog::kUnchanged;
  // Of the watchdog, from now on; infinite: it is switched off.
  std::optional<absl::Duration> watchdog_interval;
  Descriptors descriptors = Descriptors::kUnchanged;
  std::string name;    // Of the descriptors that are to be stored or removed.
  bool polled = true;  // Those to be stored go once there is a hangup or an error on them.
  // What was left out, and why. It says nothing of the message's contents.
  std::vector<const char*> objections;
};

// Longer messages are refused, as by systemd: PIPE_BUF, limits.h of Linux.
inline constexpr size_t kMaxNotification = 4096;

// `descriptors`: how many came with it. INVALID_ARGUMENT where it has a zero byte, or asks for a barrier and for
// something else, too: then it asks for nothing. Assignments that are unknown are ignored; those whose value makes no
// sense are left out.
absl::StatusOr<Notification> ReadNotification(absl::string_view text, size_t descriptors);

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_NOTIFICATION_H_
