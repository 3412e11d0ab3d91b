// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_KEPT_TRANSPORT_H_
#define BROKER_FABRIC_IWARP_KEPT_TRANSPORT_H_

#include <optional>
#include <string>

#include "broker/core/ids.h"
#include "broker/core/secrets.h"

namespace rdmabroker {

// What an established connection's transport is besides its socket, until its client has it.
struct KeptTransport {
  HandoffSecret secret = {};
  std::string state;  // For the client's data path.

  bool operator==(const KeptTransport&) const = default;
};

// All sockets of transports are kept under names that begin so.
inline constexpr char kTransportNames[] = "t";
// "t17.": no connection's name is the beginning of another's, as they are taken by their beginnings.
std::string TransportName(ConnectionId connection);

// As the connection's record has it.
std::string EncodeTransport(const KeptTransport& transport);
// Nothing for what no client could use.
std::optional<KeptTransport> DecodeTransport(const std::string& record);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_KEPT_TRANSPORT_H_
