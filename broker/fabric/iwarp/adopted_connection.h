// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_ADOPTED_CONNECTION_H_
#define BROKER_FABRIC_IWARP_ADOPTED_CONNECTION_H_

#include <optional>

#include "broker/fabric/iwarp/connection.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// A connection of the process before this one. Its handshake died with that, unless it had come to its end: from then
// on the transport is kept until the client has it.
class AdoptedConnection final : public Connection {
 public:
  // Reports what has become of it, where that is not what the core knows.
  AdoptedConnection(const IwarpSurroundings& surroundings, const FabricAdoptConnection& request);

  void Perform(const FabricComplete& request) override;
  void Perform(const FabricAccept& request) override;

 private:
  void OnReady(uint32_t) override {}

  void TakeSocket(const SocketAddress& local);
  void GoOn(AdoptedStage stage);
  // The core waits for its client to fetch the transport, or knows that it has, or has given the connection up.
  void GoOnAsEstablished();
  // It has ended with the former process.
  void EndAsLost(FabricReport report);
  // What is asked for has been done, and nobody was told.
  void ReportEstablished();

  bool recorded_ = false;                   // The former process did not know that the client had the transport.
  std::optional<KeptTransport> transport_;  // Absent where nobody can use it.
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_ADOPTED_CONNECTION_H_
