// SPDX-License-Identifier: Apache-2.0

// What a fabric does for a core that goes on where another process's was. The fake's devices, its network and itself
// have lived on, as a kernel does: what has been lost is what the core was told last, and what it was about to ask.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/fabric/fake/fake_fabric.h"

namespace rdmabroker {

void FakeFabric::GoOnAsAnother() {
  adopted_.clear();
  adopted_endpoints_.clear();
  for (const auto& [id, device] : removed_) recovering_.insert(id);
  for (const auto& [id, fake] : devices_) {
    recovering_.insert(id);
    network_.Say(host_, DeviceChanged{fake.device});
  }
}

void FakeFabric::ReportAgain(const FabricConnectRequested& report) {
  const auto connection = connections_.find(report.connection);
  if (connection == connections_.end() || connection->second.state != State::kRequested) return;
  connection->second.reported = false;
  network_.Say(host_, report);
}

void FakeFabric::Carry(const FabricAdoptEndpoint& request) {
  adopted_endpoints_.insert(request.endpoint);
  // Perhaps not as the process that died was about to ask for.
  if (endpoints_.contains(request.endpoint)) {
    return Carry(FabricRebind{request.device, request.endpoint, request.ips});
  }
  // It has been unbound, which the core is about to ask for again, or is lost.
  const FakeDevice* fake = Find(request.device);
  const bool claimed = fake != nullptr && network_.Claim(host_, fake->device, request.ips, request.port);
  endpoints_[request.endpoint] = {request.device, request.use, claimed ? request.ips : std::vector<IpAddress>(),
                                  request.port, request.use == EndpointUse::kListener};
}

void FakeFabric::Carry(const FabricAdoptConnection& request) {
  adopted_.insert(request.connection);
  last_incoming_ = std::max(last_incoming_, IncomingCounter(request.connection));
  if (const auto known = connections_.find(request.connection); known != connections_.end()) {
    known->second.reported = true;
    return network_.SayAgain(host_, request.connection);
  }
  if (request.stage == AdoptedStage::kOver) return;
  // It was never asked for, or is lost.
  Connection& connection = connections_[request.connection];
  connection.id = request.connection;
  connection.device = request.device;
  connection.endpoint = request.endpoint;
  connection.state = State::kEnded;
  SayLost(request);
}

void FakeFabric::SayLost(const FabricAdoptConnection& request) {
  const FakeDevice* fake = Find(request.device);
  switch (request.stage) {
    case AdoptedStage::kConnecting:
      return network_.Say(host_, FabricConnectFailed{request.connection, NdkStatus::kConnectionAborted});
    case AdoptedStage::kRequested:
    case AdoptedStage::kReplied:
      return network_.Say(host_, FabricFailed{request.connection, NdkStatus::kConnectionAborted});
    case AdoptedStage::kEstablished:
      // Otherwise its client has it, and says when it ends.
      if (fake != nullptr && fake->device.client_ends_connections) return;
      return network_.Say(host_, FabricDisconnected{request.connection, NdkStatus::kConnectionAborted});
    case AdoptedStage::kOver:
      return;
  }
}

void FakeFabric::Carry(const FabricAdopted& request) {
  std::vector<ConnectionId> unknown;
  for (const auto& [id, connection] : connections_) {
    if (connection.device == request.device && connection.reported && !adopted_.contains(id)) unknown.push_back(id);
  }
  for (const ConnectionId id : unknown) {
    const Connection connection = connections_.at(id);
    network_.Withdraw(host_, id);
    if (connection.state != State::kEnded && !connection.abandoned) {
      SendOn(connection.end, {.kind = WireMessage::Kind::kReject, .reason = kReasonConsumer});
    }
    Forget(connection);
  }
  std::erase_if(endpoints_, [&](const auto& entry) {
    const auto& [id, endpoint] = entry;
    if (endpoint.device != request.device || adopted_endpoints_.contains(id)) return false;
    const FakeDevice* fake = Find(endpoint.device);
    network_.Withdraw(host_, id);
    network_.Unclaim(fake != nullptr ? fake->device : removed_.at(endpoint.device), endpoint.ips, endpoint.port);
    return true;
  });
  if (Find(request.device) == nullptr) network_.Say(host_, DeviceRemoved{request.device});
  recovering_.erase(request.device);
}

bool FakeFabric::HasDone(const FabricRequest& request) {
  const DeviceId device = std::visit([](const auto& typed) { return typed.device; }, request);
  if (!recovering_.contains(device)) return false;
  return std::visit([&](const auto& typed) { return HasDone(typed); }, request);
}

bool FakeFabric::HasDone(const FabricBind& request) {
  adopted_endpoints_.insert(request.endpoint);
  network_.Withdraw(host_, request.endpoint);
  if (!endpoints_.contains(request.endpoint)) return false;
  network_.Say(host_, FabricBound{request.endpoint});
  return true;
}

bool FakeFabric::HasDone(const FabricRepurpose& request) {
  network_.Withdraw(host_, request.endpoint);
  if (endpoints_.at(request.endpoint).use != request.use) return false;
  network_.Say(host_, FabricBound{request.endpoint});
  return true;
}

bool FakeFabric::HasDone(const FabricUnbind& request) {
  network_.Withdraw(host_, request.endpoint);
  return false;
}

bool FakeFabric::HasDone(const FabricComplete& request) {
  return connections_.at(request.connection).state != State::kReplied;
}

bool FakeFabric::HasDone(const FabricAccept& request) {
  return connections_.at(request.connection).state != State::kRequested;
}

bool FakeFabric::HasDone(const FabricDisconnect& request) {
  return connections_.at(request.connection).state != State::kEstablished;
}

bool FakeFabric::HasDone(const FabricReject& request) { return HasGivenUp(request.connection); }
bool FakeFabric::HasDone(const FabricRefuse& request) { return HasGivenUp(request.connection); }
bool FakeFabric::HasDone(const FabricRelease& request) { return HasGivenUp(request.connection); }

bool FakeFabric::HasGivenUp(ConnectionId id) {
  if (connections_.contains(id)) return false;
  const auto releasing = releasing_.find(id);
  if (releasing != releasing_.end() && releasing->second.kept_back) return true;
  network_.Withdraw(host_, id);
  network_.Say(host_, FabricReleased{id});
  return true;
}

}  // namespace rdmabroker
