// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_LIMITS_H_
#define DATAPLANE_IWARP_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "dataplane/ndk/adapter_info.h"

namespace rdmabroker::iwarp {

// Bounds of the user-space adapter. They are memory bounds: nothing in software makes them natural.
inline constexpr uint32_t kMaxSge = 16;  // One gathering system call then carries several FPDUs.
inline constexpr uint32_t kMaxInlineData = 256;
inline constexpr uint32_t kMaxReadLimit14Bits = 0x3FFF - 1;  // RFC 6581: 0x3FFF says "not negotiated".
inline constexpr uint32_t kMaxQueueDepth = 16384;
inline constexpr uint32_t kMaxCqDepth = 1 << 20;
inline constexpr uint32_t kMaxTransfer = 1 << 30;  // Message offsets have 32 bits.
inline constexpr uint32_t kMaxFastRegisterPages = 1024;
inline constexpr uint32_t kMaxReads = 256;  // Read responses queued per connection for a peer.
static_assert(kMaxReads < kMaxReadLimit14Bits);

// How many bytes one visit moves in either direction before other connections have their turn, and locks are let go.
inline constexpr size_t kDriveBudget = 1 << 20;

AdapterInfo SoftwareAdapterInfo();

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_LIMITS_H_
