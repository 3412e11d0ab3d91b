// SPDX-License-Identifier: Apache-2.0

// A message of sd_notify(3), after a byte with the number of descriptors that came with it. What is read is the same
// where it is written again, and unknown assignments change nothing.

#include "broker/keeper/notification.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "broker/runtime/kept_descriptor.h"
#include "tests/fuzz.h"

namespace rdmabroker::keeper {
namespace {

// A message that asks for the same.
std::string Write(const Notification& asked) {
  std::string text;
  if (asked.state == Notification::State::kReady) text += "READY=1\n";
  if (asked.state == Notification::State::kStopping) text += "STOPPING=1\n";
  if (asked.status) absl::StrAppend(&text, "STATUS=", *asked.status, "\n");
  if (asked.watchdog == Notification::Watchdog::kPing) text += "WATCHDOG=1\n";
  if (asked.watchdog == Notification::Watchdog::kTrigger) text += "WATCHDOG=trigger\n";
  if (asked.watchdog_interval) {
    const bool off = *asked.watchdog_interval == absl::InfiniteDuration();
    absl::StrAppend(&text, "WATCHDOG_USEC=", off ? 0 : absl::ToInt64Microseconds(*asked.watchdog_interval), "\n");
  }
  if (asked.descriptors == Notification::Descriptors::kStore) text += "FDSTORE=1\n";
  if (asked.descriptors == Notification::Descriptors::kRemove) text += "FDSTOREREMOVE=1\n";
  if (asked.descriptors != Notification::Descriptors::kUnchanged) absl::StrAppend(&text, "FDNAME=", asked.name, "\n");
  if (!asked.polled) text += "FDPOLL=0\n";
  return text;
}

void RequireSame(const absl::StatusOr<Notification>& read, const Notification& asked) {
  Require(read.ok(), "it is read");
  Require(read->state == asked.state && read->status == asked.status, "state and status are the same");
  Require(read->watchdog == asked.watchdog && read->watchdog_interval == asked.watchdog_interval,
          "the watchdog is the same");
  Require(read->descriptors == asked.descriptors && read->name == asked.name && read->polled == asked.polled,
          "what is stored or removed is the same");
}

}  // namespace
}  // namespace rdmabroker::keeper

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::keeper;
  FuzzInput input(data, size);
  const size_t descriptors = input.Byte() % 3;
  const std::string text(input.RestAsText().substr(0, kMaxNotification));
  const auto asked = ReadNotification(text, descriptors);
  Require(asked.ok() || absl::IsInvalidArgument(asked.status()), "what is refused is INVALID_ARGUMENT");
  if (!asked.ok()) return 0;
  Require(IsDescriptorName(asked->name), "descriptors have a name that can be handed back");
  Require(!asked->watchdog_interval || *asked->watchdog_interval > absl::ZeroDuration(), "an interval takes time");
  const auto again = ReadNotification(Write(*asked), descriptors);
  RequireSame(again, *asked);
  Require(again->objections.empty(), "nothing is left out of what was taken");
  if (text.find("BARRIER=1") == std::string::npos) {
    RequireSame(ReadNotification(absl::StrCat("MAINPID=1\nX\n", text), descriptors), *asked);
  }
  return 0;
}
