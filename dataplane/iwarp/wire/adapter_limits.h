// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_ADAPTER_LIMITS_H_
#define DATAPLANE_IWARP_WIRE_ADAPTER_LIMITS_H_

#include <cstdint>

#include "dataplane/iwarp/wire/startup_frame.h"
#include "dataplane/ndk/adapter_info.h"

namespace rdmabroker::iwarp {

// Bounds of the user-space adapter, which the broker reports and the data path keeps. They are memory bounds: nothing
// in software makes them natural.
inline constexpr uint32_t kMaxSge = 16;  // One gathering system call then carries several FPDUs.
inline constexpr uint32_t kMaxInlineData = 256;
inline constexpr uint32_t kMaxQueueDepth = 16384;
inline constexpr uint32_t kMaxCqDepth = 1 << 20;
inline constexpr uint32_t kMaxTransfer = 1 << 30;  // Message offsets have 32 bits.
inline constexpr uint32_t kMaxFastRegisterPages = 1024;
inline constexpr uint32_t kMaxReads = 256;  // Read responses queued per connection for a peer.
static_assert(kMaxReads < kMaxReadLimit);   // Which says "not negotiated".

AdapterInfo SoftwareAdapterInfo();

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_ADAPTER_LIMITS_H_
