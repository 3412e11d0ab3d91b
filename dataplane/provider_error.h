// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_PROVIDER_ERROR_H_
#define DATAPLANE_PROVIDER_ERROR_H_

#include <cstdint>
#include <string>

#include "dataplane/iwarp/wire/protocol_error.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// The provider errors of connections' ends and of results. Smaller numbers are the kernel's connection manager's:
// errnos.

// User-space iWARP: what happened in the upper half, which one in the lower.
inline constexpr uint32_t kTerminateSent = 0x10000;      // This side found fault with the peer; TerminateCause::number.
inline constexpr uint32_t kTerminateReceived = 0x20000;  // The peer found fault with this side; the same numbers.
inline constexpr uint32_t kSocketError = 0x40000;        // An errno of the socket; 0: the stream ended within an FPDU.
inline constexpr uint32_t kLocalError = 0x80000;         // A request of this side named memory that it may not use.
// Verbs: a completion that failed. Bits 24 to 30 have its status (enum ibv_wc_status), the lower ones what fits of its
// vendor_err.
inline constexpr uint32_t kFailedCompletion = 0x80000000;

constexpr uint32_t TerminateSent(iwarp::TerminateCause cause) { return kTerminateSent | cause.number(); }
constexpr uint32_t TerminateReceived(iwarp::TerminateCause cause) { return kTerminateReceived | cause.number(); }
constexpr uint32_t FailedCompletion(uint32_t status, uint32_t vendor_error) {
  return kFailedCompletion | (status & 0x7F) << 24 | (vendor_error & 0xFFFFFF);
}

// Whether it is a data path's, and so of an established connection: the kernel's connection manager has numbers of its
// own for handshakes.
constexpr bool IsOfDataPath(uint32_t provider_error) { return provider_error > 0xFFFF; }

// For people and logs: who noticed how an established connection ended, what that means, and what to do. Empty for
// kSuccess. Not to be parsed.
std::string ConnectionEndText(NdkStatus status, uint32_t provider_error);

}  // namespace rdmabroker

#endif  // DATAPLANE_PROVIDER_ERROR_H_
