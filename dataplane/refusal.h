// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_REFUSAL_H_
#define DATAPLANE_REFUSAL_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// Where the thread's hint is written. A fixed size, as a refusal for want of memory has one, too.
std::span<char> HintRoom();

// Sets the thread's hint (last_hint.h), which is cut off where it is too long, and returns the status.
template <typename... Values>
NdkStatus Refuse(NdkStatus status, const absl::FormatSpec<Values...>& format, const Values&... values) {
  const std::span<char> room = HintRoom();
  absl::SNPrintF(room.data(), room.size(), format, values...);
  return status;
}

// Empties the thread's hint, where a call follows that is perhaps none of this library's.
void ForgetHint();
// `what`, and the thread's hint behind it if there is one.
std::string WithHint(std::string_view what);

// kInvalidParameter: for functions that need a completion.
NdkStatus RefuseWithoutCompletion();
// In a child by fork(2).
NdkStatus RefuseInForkedChild(NdkStatus status = NdkStatus::kInvalidDeviceState);

}  // namespace rdmabroker

#endif  // DATAPLANE_REFUSAL_H_
