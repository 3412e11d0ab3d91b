// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_ACTIVE_CONNECTION_H_
#define BROKER_FABRIC_IWARP_ACTIVE_CONNECTION_H_

#include "broker/fabric/iwarp/connection.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker {

// The side that connects: TCP, MPA request and reply, ready-to-receive message. It waits for its turn first, and as
// long as it does, it can be left to the next process (waiting_connect.h).
class ActiveConnection final : public Connection {
 public:
  // Begins to connect as soon as it may.
  ActiveConnection(const IwarpSurroundings& surroundings, const FabricConnect& request);

  void Perform(const FabricComplete& request) override;
  void MakeWay() override;

 private:
  void OnReady(uint32_t events) override;
  void OnDeadline() override;

  void AwaitTurn();
  void LeaveToNext();
  void OnTurn();
  void StartConnecting();
  // The address is waited for, within a bound.
  void TryLater(int error);
  void SendRequest();
  void ReceiveReply();
  void OnReply(const iwarp::StartupFrame& reply);
  // Before the reply; reports FabricConnectFailed.
  void Refuse(int error, std::string explanation = {});

  const FabricConnect wanted_;
  absl::Time first_turn_ = absl::InfinitePast();  // From then on it waits for its addresses.
  iwarp::StartupFrame request_;
  iwarp::Offer offer_;
  iwarp::ConnectionState agreed_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_ACTIVE_CONNECTION_H_
