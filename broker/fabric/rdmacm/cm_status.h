// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_CM_STATUS_H_
#define BROKER_FABRIC_RDMACM_CM_STATUS_H_

#include <cstdint>
#include <string>

#include "dataplane/ndk/status.h"

namespace rdmabroker {

// What an errno of the kernel's connection manager means depends on what was being done.
enum class CmStep : uint8_t {
  kBind,            // Creating an id, binding, listening.
  kResolveAddress,  // RESOLVE_ADDR and ADDR_ERROR.
  kResolveRoute,    // RESOLVE_ROUTE and ROUTE_ERROR.
  kConnect,         // CONNECT; CONNECT_ERROR, UNREACHABLE and REJECTED before the peer's reply.
  kFinish,          // ACCEPT and the third message; the same events after the reply, or on the accepting side.
  kDisconnect,      // DISCONNECT and DISCONNECTED.
};

// The status of a step that ended with `error`: an errno as a call returns it or an event carries it, without its sign.
NdkStatus CmStatus(CmStep step, int error);
// The same of an address's bind; `local`: whether the device has the address.
NdkStatus CmBindStatus(int error, bool local);
// Of a step that ended with REJECTED for one of InfiniBand's reasons, whichever.
NdkStatus CmRejectStatus(CmStep step);

// Reasons of a reject (InfiniBand Architecture Specification, volume 1, table 108).
inline constexpr int kRejectNoResources = 3;
inline constexpr int kRejectInvalidServiceId = 8;
inline constexpr int kRejectStaleConnection = 10;
inline constexpr int kRejectConsumerDefined = 28;

// For a person: who has refused a connect with that reason, or with that errno of an iWARP device's, and what to look
// at. Empty for an errno that is no refusal.
std::string CmRefusalText(bool by_reason, int error);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_CM_STATUS_H_
