// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_PROVIDER_ERROR_H_
#define DATAPLANE_IWARP_PROVIDER_ERROR_H_

#include <cstdint>
#include <string>

#include "dataplane/iwarp/wire/protocol_error.h"

namespace rdmabroker::iwarp {

// The provider error codes of this adapter: what happened in the upper half, which one in the lower.
inline constexpr uint32_t kTerminateSent = 0x10000;      // This side found fault with the peer; TerminateCause::number.
inline constexpr uint32_t kTerminateReceived = 0x20000;  // The peer found fault with this side; the same numbers.
inline constexpr uint32_t kSocketError = 0x40000;        // An errno of the socket; 0: the stream ended within an FPDU.
inline constexpr uint32_t kLocalError = 0x80000;         // A request of this side named memory that it may not use.

constexpr uint32_t TerminateSent(TerminateCause cause) { return kTerminateSent | cause.number(); }
constexpr uint32_t TerminateReceived(TerminateCause cause) { return kTerminateReceived | cause.number(); }

// For people and logs: "terminated by the peer: DDP: invalid STag".
std::string ProviderErrorText(uint32_t provider_error);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_PROVIDER_ERROR_H_
