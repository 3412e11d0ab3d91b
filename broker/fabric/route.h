// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_ROUTE_H_
#define BROKER_FABRIC_ROUTE_H_

#include "broker/core/fabric_messages.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// The kernel's route from the calling thread's network namespace to a unicast destination. Sends nothing and does not
// wait.
Route KernelRouteTo(const SocketAddress& destination);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_ROUTE_H_
