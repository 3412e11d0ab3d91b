// SPDX-License-Identifier: Apache-2.0

#include "dataplane/refusal.h"

#include <array>

#include "dataplane/forked_child.h"
#include "dataplane/last_hint.h"

namespace rdmabroker {
namespace {

// Longer than any hint of this library with its values.
thread_local constinit std::array<char, 512> hint = {};

}  // namespace

const char* LastHint() { return hint.data(); }

std::span<char> HintRoom() { return hint; }

NdkStatus RefuseInForkedChild(NdkStatus status) { return Refuse(status, "%s", kForkedChildHint); }

}  // namespace rdmabroker
