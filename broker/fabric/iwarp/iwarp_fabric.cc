// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/iwarp_fabric.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "broker/fabric/iwarp/adopted_connection.h"
#include "broker/fabric/iwarp/waiting_connect.h"
#include "broker/log/log.h"
#include "dataplane/iwarp/wire/adapter_limits.h"

namespace rdmabroker {
namespace {

constexpr char kDeviceName[] = "iwarp0";

}  // namespace

absl::StatusOr<std::unique_ptr<IwarpFabric>> IwarpFabric::Open(DeviceId device, const IwarpOptions& options, Loop& loop,
                                                               HandoffTable& handoffs, DescriptorKeep& keep,
                                                               FabricRecords& records) {
  const absl::StatusOr<uint64_t> network_namespace = NetworkNamespace();
  if (!network_namespace.ok()) return network_namespace.status();
  absl::StatusOr<std::unique_ptr<LocalAddresses>> addresses = LocalAddresses::Open();
  if (!addresses.ok()) return addresses.status();
  return std::unique_ptr<IwarpFabric>(
      new IwarpFabric(device, options, loop, handoffs, keep, records, *std::move(addresses), *network_namespace));
}

IwarpFabric::IwarpFabric(DeviceId device, const IwarpOptions& options, Loop& loop, HandoffTable& handoffs,
                         DescriptorKeep& keep, FabricRecords& records, std::unique_ptr<LocalAddresses> addresses,
                         uint64_t network_namespace)
    : device_(device),
      options_(options),
      network_namespace_(network_namespace),
      addresses_(std::move(addresses)),
      reports_([this](FabricReport report) { Deliver(std::move(report)); }),
      turns_(options_.handshakes.per_listener),
      surroundings_{options_, *addresses_, loop, handoffs, keep, records, reports_, turns_, losses_},
      half_open_(surroundings_,
                 [this](EndpointId listener, AcceptedSocket accepted, iwarp::StartupFrame request) {
                   OnRequest(listener, std::move(accepted), std::move(request));
                 }),
      endpoints_(
          surroundings_,
          [this](EndpointId listener, AcceptedSocket accepted) { half_open_.Add(listener, std::move(accepted)); },
          [this] { return half_open_.CloseOldest(); }),
      incoming_ids_(device) {}

IwarpFabric::~IwarpFabric() { surroundings_.loop.Unwatch(address_watch_); }

void IwarpFabric::Start(ReportSink sink) {
  ReportQueue::Entry entry(reports_);
  sink_ = std::move(sink);
  address_watch_ =
      surroundings_.loop.Watch(addresses_->descriptor(), EPOLLIN, [this](uint32_t) { OnAddressesChanged(); });
  ReportDevice();
}

void IwarpFabric::Perform(const FabricRequest& request) {
  ReportQueue::Entry entry(reports_);
  std::visit([this](const auto& typed) { Carry(typed); }, request);
}

void IwarpFabric::MakeWay() {
  ReportQueue::Entry entry(reports_);
  turns_.Hold();
  for (const auto& [id, connection] : connections_) connection->MakeWay();
  endpoints_.MakeWay();
}

bool IwarpFabric::HasHandshakes() const {
  return !half_open_.empty() || std::any_of(connections_.begin(), connections_.end(),
                                            [](const auto& entry) { return entry.second->in_handshake(); });
}

void IwarpFabric::ReportDevice() {
  Device device;
  device.id = device_;
  device.name = kDeviceName;
  device.info = iwarp::SoftwareAdapterInfo();
  device.network_namespace = network_namespace_;
  device.port_space = PortSpace::kTcp;
  device.addresses = addresses_->addresses();
  device.client_ends_connections = true;
  if (device.addresses.empty()) {
    device.unusable_reason =
        "no interface of the daemon's network namespace has an address; bring one up, as by "
        "\"ip link set lo up\"";
  }
  reports_.Push(DeviceChanged{std::move(device)});
}

void IwarpFabric::OnAddressesChanged() {
  ReportQueue::Entry entry(reports_);
  if (addresses_->Refresh()) ReportDevice();
  surroundings_.loop.Rearm(address_watch_, EPOLLIN);
}

void IwarpFabric::OnRequest(EndpointId listener, AcceptedSocket accepted, iwarp::StartupFrame request) {
  const ConnectionId id = incoming_ids_.Next();
  connections_[id] =
      std::make_unique<PassiveConnection>(surroundings_, id, listener, std::move(accepted), std::move(request));
}

void IwarpFabric::Deliver(FabricReport report) {
  if (const auto* released = std::get_if<FabricReleased>(&report)) connections_.erase(released->connection);
  sink_(std::move(report));
}

void IwarpFabric::Carry(const FabricUnbind& request) {
  half_open_.CloseAll(request.endpoint);
  endpoints_.Unbind(request);
}

void IwarpFabric::Carry(const FabricConnect& request) {
  connections_[request.connection] = std::make_unique<ActiveConnection>(surroundings_, request);
}

void IwarpFabric::Carry(const FabricAdoptConnection& request) {
  incoming_ids_.Adopt(request.connection);
  auto& connection = connections_[request.connection];
  const auto& records = std::as_const(surroundings_.records.connections);
  const auto record = records.find(request.connection);
  if (request.stage == AdoptedStage::kConnecting && record != records.end()) {
    if (const auto waiting = DecodeWaiting(record->second, request)) {
      connection = std::make_unique<ActiveConnection>(surroundings_, *waiting);
      return;
    }
  }
  connection = std::make_unique<AdoptedConnection>(surroundings_, request);
}

void IwarpFabric::Carry(const FabricAdopted&) {
  const size_t addresses = endpoints_.ForgetTheRest();
  const std::vector<KeptDescriptor> transports = surroundings_.keep.Take(kTransportNames);
  // Nobody knows whether a client has it: its last holder ends it.
  for (const KeptDescriptor& kept : transports) surroundings_.keep.Forget(kept.name);
  if (addresses == 0 && transports.empty()) return;
  LogInfo("sockets of the process before belong to nothing here, and are closed",
          {{"addresses", addresses}, {"transports", transports.size()}});
}

}  // namespace rdmabroker
