// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_PASSIVE_CONNECTION_H_
#define BROKER_FABRIC_IWARP_PASSIVE_CONNECTION_H_

#include "broker/fabric/iwarp/connection.h"
#include "broker/fabric/iwarp/sockets.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker {

// The side that listened, from the complete MPA request on: reply or reject, the peer's ready-to-receive message.
class PassiveConnection final : public Connection {
 public:
  // Reports FabricConnectRequested.
  PassiveConnection(const IwarpSurroundings& surroundings, ConnectionId id, EndpointId endpoint,
                    AcceptedSocket accepted, iwarp::StartupFrame request);

  void Perform(const FabricAccept& request) override;
  void Perform(const FabricReject& request) override;

 private:
  void OnReady(uint32_t events) override;
  void OnDeadline() override;

  void ReceiveReady();
  // Reads what a rejected peer still sends until it closes.
  void Discard();

  const iwarp::StartupFrame request_;
  iwarp::ConnectionState agreed_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_PASSIVE_CONNECTION_H_
