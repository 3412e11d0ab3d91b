// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_WAITING_CONNECT_H_
#define BROKER_FABRIC_IWARP_WAITING_CONNECT_H_

#include <optional>
#include <string>

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

// As the connection's record has it while nothing of it has left for the peer, so that the next process begins it.
std::string EncodeWaiting(const FabricConnect& request);
// Nothing for a record that is another. Of the queue pair, which user-space iWARP has no use for, it says nothing.
std::optional<FabricConnect> DecodeWaiting(const std::string& record, const FabricAdoptConnection& adopted);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_WAITING_CONNECT_H_
