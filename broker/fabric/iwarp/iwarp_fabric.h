// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_IWARP_FABRIC_H_
#define BROKER_FABRIC_IWARP_IWARP_FABRIC_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "broker/fabric/fabric.h"
#include "broker/fabric/handshake_turns.h"
#include "broker/fabric/incoming_ids.h"
#include "broker/fabric/iwarp/active_connection.h"
#include "broker/fabric/iwarp/endpoints.h"
#include "broker/fabric/iwarp/half_open_sockets.h"
#include "broker/fabric/iwarp/passive_connection.h"
#include "broker/fabric/route.h"

namespace rdmabroker {

// iWARP in user space: makes connections by MPA (RFC 5044, RFC 6581) over TCP sockets of its own and leaves each, once
// established, in the HandoffTable for the client's data path. Needs no NIC and no privileges. One device, "iwarp0",
// with all local unicast addresses of the network namespace.
//
// Who ends a stream, so that no TIME_WAIT is in a later connection's way: this fabric resets what it gives up, but for
// a stream on which it has just sent a reject. Clients end theirs as they like; a connection whose addresses the kernel
// still remembers is tried until IwarpOptions::time_wait has passed.
class IwarpFabric final : public Fabric {
 public:
  // The four outlive it. What `keep` and `records` have of the fabric before it is taken over as the core asks.
  // UNAVAILABLE where the kernel does not tell the local addresses.
  static absl::StatusOr<std::unique_ptr<IwarpFabric>> Open(DeviceId device, const IwarpOptions& options, Loop& loop,
                                                           HandoffTable& handoffs, DescriptorKeep& keep,
                                                           FabricRecords& records);
  ~IwarpFabric() override;
  IwarpFabric(const IwarpFabric&) = delete;
  IwarpFabric& operator=(const IwarpFabric&) = delete;

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;
  Route RouteTo(const SocketAddress& destination) const override { return KernelRouteTo(destination); }
  void MakeWay() override;
  bool HasHandshakes() const override;

 private:
  IwarpFabric(DeviceId device, const IwarpOptions& options, Loop& loop, HandoffTable& handoffs, DescriptorKeep& keep,
              FabricRecords& records, std::unique_ptr<LocalAddresses> addresses, uint64_t network_namespace);

  void ReportDevice();
  void OnAddressesChanged();
  void OnRequest(EndpointId listener, AcceptedSocket accepted, iwarp::StartupFrame request);
  // A report on its way out.
  void Deliver(FabricReport report);

  void Carry(const FabricBind& request) { endpoints_.Bind(request); }
  void Carry(const FabricRepurpose& request) { endpoints_.Repurpose(request); }
  void Carry(const FabricRebind& request) { endpoints_.Rebind(request); }
  void Carry(const FabricUnbind& request);
  void Carry(const FabricConnect& request);
  void Carry(const FabricComplete& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricAccept& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricReject& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricRefuse& request) { connections_.at(request.connection)->Release(); }
  void Carry(const FabricRelease& request) { connections_.at(request.connection)->Release(request.client_ended); }
  // Never asked of a device whose client ends connections.
  void Carry(const FabricDisconnect&) {}
  void Carry(const FabricAdoptEndpoint& request) { endpoints_.Adopt(request); }
  void Carry(const FabricAdoptConnection& request);
  void Carry(const FabricAdopted& request);

  const DeviceId device_;
  const IwarpOptions options_;
  const uint64_t network_namespace_;
  const std::unique_ptr<LocalAddresses> addresses_;
  ReportSink sink_;
  ReportQueue reports_;
  HandshakeTurns turns_;
  WarningLimit losses_;
  const IwarpSurroundings surroundings_;
  WatchId address_watch_ = WatchId::kNone;
  HalfOpenSockets half_open_;
  Endpoints endpoints_;
  IncomingIds incoming_ids_;
  std::map<ConnectionId, std::unique_ptr<Connection>> connections_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_IWARP_FABRIC_H_
