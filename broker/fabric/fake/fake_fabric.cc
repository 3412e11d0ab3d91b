// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/fake/fake_fabric.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker {

Device MakeFakeDevice(DeviceId id, std::string name, uint64_t network_namespace, std::vector<IpAddress> addresses) {
  Device device;
  device.id = id;
  device.name = std::move(name);
  device.info.max_registration_size = uint64_t{1} << 40;
  device.info.max_window_size = uint64_t{1} << 40;
  device.info.max_initiator_request_sge = 16;
  device.info.max_receive_request_sge = 16;
  device.info.max_read_request_sge = 16;
  device.info.max_transfer_length = 1u << 30;
  device.info.max_inline_data_size = 256;
  device.info.max_inbound_read_limit = 16;
  device.info.max_outbound_read_limit = 16;
  device.info.max_receive_queue_depth = 4096;
  device.info.max_initiator_queue_depth = 4096;
  device.info.max_srq_depth = 4096;
  device.info.max_cq_depth = 65536;
  device.info.large_request_threshold = 4096;
  device.info.max_caller_data = 56;
  device.info.max_callee_data = 148;
  device.info.adapter_flags = kLoopbackConnectionsSupported;
  device.info.technology = RdmaTechnology::kRoceV2;
  device.network_namespace = network_namespace;
  std::sort(addresses.begin(), addresses.end());
  device.addresses = std::move(addresses);
  return device;
}

FakeFabric::FakeFabric(FakeNetwork& network, std::vector<FakeDevice> devices)
    : network_(network), host_(network.Attach(this)) {
  for (FakeDevice& device : devices) devices_.emplace(device.device.id, std::move(device));
}

FakeFabric::~FakeFabric() {
  for (const auto& [id, connection] : connections_) SendOn(connection, WireMessage::Kind::kAbort);
  for (const auto& [id, transport] : transports_) SendOn(transport.end, {.kind = WireMessage::Kind::kAbort});
  network_.Detach(host_);
}

void FakeFabric::Start(ReportSink sink) {
  sink_ = std::move(sink);
  for (const auto& [id, fake] : devices_) sink_(DeviceChanged{fake.device});
}

Route FakeRoute(const std::vector<FakeDevice>& devices, const SocketAddress& destination) {
  Route route;
  for (const FakeDevice& device : devices) {
    for (const IpAddress& ip : device.device.addresses) {
      if (ip.family != destination.ip.family) continue;
      if (ip == destination.ip || route.status != NdkStatus::kSuccess) route = {NdkStatus::kSuccess, ip};
      if (ip == destination.ip) return route;
    }
  }
  return route;
}

Route FakeFabric::RouteTo(const SocketAddress& destination) const {
  std::vector<FakeDevice> devices;
  for (const auto& [id, device] : devices_) devices.push_back(device);
  return FakeRoute(devices, destination);
}

void FakeFabric::Perform(const FabricRequest& request) {
  if (HasDone(request)) return;
  std::visit([&](const auto& typed) { Carry(typed); }, request);
}

void FakeFabric::AddDevice(FakeDevice device) {
  const DeviceId id = device.device.id;
  network_.Say(host_, DeviceChanged{device.device});
  devices_.insert_or_assign(id, std::move(device));
}

void FakeFabric::SetAddresses(DeviceId id, std::vector<IpAddress> addresses) {
  Device& device = devices_.at(id).device;
  std::sort(addresses.begin(), addresses.end());
  device.addresses = std::move(addresses);
  network_.Say(host_, DeviceChanged{device});
}

void FakeFabric::SetUnusable(DeviceId id, std::string reason) {
  Device& device = devices_.at(id).device;
  device.unusable_reason = std::move(reason);
  network_.Say(host_, DeviceChanged{device});
}

void FakeFabric::RemoveDevice(DeviceId id) {
  for (auto& [connection_id, connection] : connections_) {
    if (connection.device != id || connection.state == State::kEnded) continue;
    SendOn(connection, WireMessage::Kind::kAbort);
    connection.state = State::kEnded;
  }
  FinishReleases(id);
  network_.Say(host_, DeviceRemoved{id});
  removed_.insert_or_assign(id, devices_.at(id).device);
  devices_.erase(id);
}

void FakeFabric::FailNext(DeviceId device, Step step, Fault fault) { faults_[{device, step}].push_back(fault); }

void FakeFabric::FinishReleases(DeviceId device) {
  for (auto& [id, releasing] : releasing_) {
    if (releasing.device == device && std::exchange(releasing.kept_back, false))
      network_.Say(host_, FabricReleased{id});
  }
}

const FakeDevice* FakeFabric::Find(DeviceId device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? nullptr : &found->second;
}

std::optional<FakeFabric::Fault> FakeFabric::TakeFault(DeviceId device, Step step) {
  const auto planted = faults_.find({device, step});
  if (planted == faults_.end()) return std::nullopt;
  const Fault fault = planted->second.front();
  planted->second.pop_front();
  if (planted->second.empty()) faults_.erase(planted);
  return fault;
}

// --- Endpoints ---

std::optional<FakeFabric::Fault> FakeFabric::ClaimPorts(const FabricBind& request) {
  const FakeDevice* fake = Find(request.device);
  if (fake == nullptr) return Fault{NdkStatus::kDeviceRemoved, ENODEV};
  if (auto fault = TakeFault(request.device, Step::kBind)) return fault;
  const auto& own = fake->device.addresses;
  for (const IpAddress& ip : request.ips) {
    if (std::find(own.begin(), own.end(), ip) == own.end()) return Fault{NdkStatus::kInvalidAddress, EADDRNOTAVAIL};
  }
  if (!network_.Claim(host_, fake->device, request.ips, request.port)) {
    return Fault{NdkStatus::kSharingViolation, EADDRINUSE};
  }
  return std::nullopt;
}

void FakeFabric::Carry(const FabricBind& request) {
  if (endpoints_.contains(request.endpoint)) {
    return network_.Breach(absl::StrCat("FabricBind: endpoint ", request.endpoint.value(), " is bound already"));
  }
  if (const auto fault = ClaimPorts(request)) {
    return network_.Say(host_, FabricBindFailed{request.endpoint, fault->status, fault->provider_error});
  }
  endpoints_[request.endpoint] = {request.device, request.use, request.ips, request.port};
  network_.Say(host_, FabricBound{request.endpoint});
}

void FakeFabric::Carry(const FabricRepurpose& request) {
  const auto endpoint = endpoints_.find(request.endpoint);
  if (endpoint == endpoints_.end() || endpoint->second.use != EndpointUse::kReserved) {
    return network_.Breach(absl::StrCat("FabricRepurpose: endpoint ", request.endpoint.value(), " is not reserved"));
  }
  std::optional<Fault> fault = TakeFault(request.device, Step::kRepurpose);
  if (Find(request.device) == nullptr) fault = Fault{NdkStatus::kDeviceRemoved, ENODEV};
  if (fault) return network_.Say(host_, FabricBindFailed{request.endpoint, fault->status, fault->provider_error});
  endpoint->second.use = request.use;
  network_.Say(host_, FabricBound{request.endpoint});
}

void FakeFabric::Carry(const FabricRebind& request) {
  const auto found = endpoints_.find(request.endpoint);
  if (found == endpoints_.end()) {
    return network_.Breach(absl::StrCat("FabricRebind: endpoint ", request.endpoint.value(), " is not bound"));
  }
  const FakeDevice* fake = Find(request.device);
  if (fake == nullptr) return;
  Endpoint& endpoint = found->second;
  const auto& own = fake->device.addresses;
  std::vector<IpAddress> kept;
  for (const IpAddress& ip : endpoint.ips) {
    if (std::find(request.ips.begin(), request.ips.end(), ip) != request.ips.end()) {
      kept.push_back(ip);
    } else {
      network_.Unclaim(fake->device, {ip}, endpoint.port);
    }
  }
  for (const IpAddress& ip : request.ips) {
    if (std::find(kept.begin(), kept.end(), ip) != kept.end()) continue;
    const bool on_device = std::find(own.begin(), own.end(), ip) != own.end();
    if (on_device && network_.Claim(host_, fake->device, {ip}, endpoint.port)) kept.push_back(ip);
  }
  endpoint.device = request.device;
  endpoint.ips = std::move(kept);
}

void FakeFabric::Carry(const FabricUnbind& request) {
  const auto endpoint = endpoints_.find(request.endpoint);
  if (endpoint == endpoints_.end()) {
    return network_.Breach(absl::StrCat("FabricUnbind: endpoint ", request.endpoint.value(), " is not bound"));
  }
  // Requests that the core has not heard of are refused here.
  std::vector<ConnectionId> unreported;
  for (const auto& [id, connection] : connections_) {
    if (!connection.reported && connection.endpoint == request.endpoint) unreported.push_back(id);
  }
  for (const ConnectionId id : unreported) {
    const Connection connection = connections_.at(id);
    network_.Withdraw(host_, id);
    if (connection.state != State::kEnded) {
      SendOn(connection.end, {.kind = WireMessage::Kind::kReject, .reason = kReasonNoListener});
    }
    Forget(connection);
  }
  const FakeDevice* fake = Find(request.device);
  const Device& device = fake != nullptr ? fake->device : removed_.at(request.device);
  network_.Unclaim(device, endpoint->second.ips, endpoint->second.port);
  endpoints_.erase(endpoint);
  network_.Say(host_, FabricUnbound{request.endpoint});
}

// --- From the network ---

void FakeFabric::OnReport(const FabricReport& report) {
  if (const auto* bound = std::get_if<FabricBound>(&report)) {
    const auto endpoint = endpoints_.find(bound->endpoint);
    if (endpoint != endpoints_.end()) endpoint->second.listening = endpoint->second.use == EndpointUse::kListener;
  } else if (const auto* requested = std::get_if<FabricConnectRequested>(&report)) {
    connections_.at(requested->connection).reported = true;
  } else if (const auto* released = std::get_if<FabricReleased>(&report)) {
    releasing_.erase(released->connection);
  }
  sink_(report);
}

EndpointId FakeFabric::ListenerAt(const WireMessage& request) const {
  for (const auto& [id, endpoint] : endpoints_) {
    const FakeDevice* fake = Find(endpoint.device);
    const bool fits = fake != nullptr && fake->device.port_space == request.port_space && endpoint.listening &&
                      endpoint.port == request.destination.port;
    if (!fits) continue;
    if (std::find(endpoint.ips.begin(), endpoint.ips.end(), request.destination.ip) != endpoint.ips.end()) return id;
  }
  return EndpointId();
}

}  // namespace rdmabroker
