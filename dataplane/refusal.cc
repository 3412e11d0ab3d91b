// SPDX-License-Identifier: Apache-2.0

#include "dataplane/refusal.h"

#include <array>

#include "dataplane/forked_child.h"
#include "dataplane/last_hint.h"

namespace rdmabroker {
namespace {

// As long as the hint of an event of the C library (RDMA_BROKER_HINT_SIZE).
thread_local constinit std::array<char, 1032> hint = {};

}  // namespace

const char* LastHint() { return hint.data(); }

std::span<char> HintRoom() { return hint; }

void ForgetHint() { hint[0] = '\0'; }

std::string WithHint(std::string_view what) {
  std::string text(what);
  if (hint[0] != '\0') text.append(": ").append(hint.data());
  return text;
}

NdkStatus RefuseWithoutCompletion() { return Refuse(NdkStatus::kInvalidParameter, "completion: missing"); }

NdkStatus RefuseInForkedChild(NdkStatus status) { return Refuse(status, "%s", kForkedChildHint); }

}  // namespace rdmabroker
