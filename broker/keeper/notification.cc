// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/notification.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "broker/runtime/kept_descriptor.h"

namespace rdmabroker::keeper {
namespace {

using Assignments = std::vector<absl::string_view>;

// Of descriptors that come without one, or with one that is none.
constexpr char kDefaultName[] = "stored";

bool Has(const Assignments& assignments, absl::string_view whole) {
  return std::find(assignments.begin(), assignments.end(), whole) != assignments.end();
}

// The value of the first assignment to it.
std::optional<absl::string_view> ValueOf(const Assignments& assignments, absl::string_view name_and_sign) {
  for (absl::string_view assignment : assignments) {
    if (absl::ConsumePrefix(&assignment, name_and_sign)) return assignment;
  }
  return std::nullopt;
}

// The last one wins.
Notification::State StateOf(const Assignments& assignments) {
  for (auto assignment = assignments.rbegin(); assignment != assignments.rend(); ++assignment) {
    if (*assignment == "READY=1") return Notification::State::kReady;
    if (*assignment == "STOPPING=1") return Notification::State::kStopping;
  }
  return Notification::State::kUnchanged;
}

void ReadWatchdog(const Assignments& assignments, Notification* notification) {
  if (const auto value = ValueOf(assignments, "WATCHDOG=")) {
    if (*value == "1") {
      notification->watchdog = Notification::Watchdog::kPing;
    } else if (*value == "trigger") {
      notification->watchdog = Notification::Watchdog::kTrigger;
    } else {
      notification->objections.push_back("WATCHDOG: neither 1 nor trigger");
    }
  }
  if (const auto value = ValueOf(assignments, "WATCHDOG_USEC=")) {
    uint64_t microseconds = 0;
    if (!absl::SimpleAtoi(*value, &microseconds)) {
      notification->objections.push_back("WATCHDOG_USEC: not a number of microseconds");
    } else if (microseconds == 0 || microseconds > uint64_t{std::numeric_limits<int64_t>::max()}) {
      notification->watchdog_interval = absl::InfiniteDuration();
    } else {
      notification->watchdog_interval = absl::Microseconds(microseconds);
    }
  }
}

void ReadDescriptors(const Assignments& assignments, Notification* notification) {
  const auto name = ValueOf(assignments, "FDNAME=");
  const bool named = name && IsDescriptorName(std::string(*name));
  if (Has(assignments, "FDSTOREREMOVE=1")) {
    if (named) {
      notification->descriptors = Notification::Descriptors::kRemove;
      notification->name = std::string(*name);
    } else {
      notification->objections.push_back("FDSTOREREMOVE: no FDNAME, or one that is no descriptor's name");
    }
  } else if (Has(assignments, "FDSTORE=1")) {
    notification->descriptors = Notification::Descriptors::kStore;
    notification->name = named ? std::string(*name) : kDefaultName;
    notification->polled = !Has(assignments, "FDPOLL=0");
    if (name && !named) notification->objections.push_back("FDNAME: no descriptor's name");
  }
}

}  // namespace

absl::StatusOr<Notification> ReadNotification(absl::string_view text, size_t descriptors) {
  absl::ConsumeSuffix(&text, absl::string_view("\0", 1));  // The one that may end it.
  if (text.find('\0') != absl::string_view::npos) return absl::InvalidArgumentError("it has a zero byte");
  const Assignments assignments = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (Has(assignments, "BARRIER=1")) {
    if (assignments.size() != 1) return absl::InvalidArgumentError("BARRIER: something else came with it");
    if (descriptors != 1) return absl::InvalidArgumentError("BARRIER: not one descriptor came with it");
    return Notification();
  }
  Notification notification;
  notification.state = StateOf(assignments);
  if (const auto status = ValueOf(assignments, "STATUS=")) notification.status = std::string(*status);
  ReadWatchdog(assignments, &notification);
  ReadDescriptors(assignments, &notification);
  return notification;
}

}  // namespace rdmabroker::keeper
