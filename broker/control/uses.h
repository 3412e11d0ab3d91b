// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_USES_H_
#define BROKER_CONTROL_USES_H_

#include <optional>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/policy/policy.h"

namespace rdmabroker {

// What a client's request would use, as rules see it; nothing for one that goes on with, asks about or ends what the
// client has, and for one that names an object which is not its session's, as the core refuses that.
std::optional<Use> UseOf(const ClientRequest& request, const Records& records, const Limits& limits);

// Further uses that rules must allow. A listener that may be at any adapter uses its port on each adapter of its kind
// that its session has open: Listen asks for those, and OpenAdapter for the ports of such listeners.
std::vector<Use> FurtherUsesOf(const ClientRequest& request, const Use& use, const BrokerCore& core);

// The request's name in the contract.
const char* NameOf(const Request& request);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_USES_H_
