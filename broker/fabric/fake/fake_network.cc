// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/fake/fake_network.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/fabric/fake/fake_fabric.h"

namespace rdmabroker {
namespace {

// The deliveries that one posted function makes, so that the loop gets to its other work in between.
constexpr size_t kPumpBatch = 64;

constexpr const char* kMessageNames[] = {"request", "reply", "ready", "reject", "disconnect", "abort"};

constexpr const char* kReportNames[] = {
    "DeviceChanged",          "DeviceRemoved",   "FabricBound",         "FabricBindFailed",  "FabricUnbound",
    "FabricConnectRequested", "FabricReplied",   "FabricConnectFailed", "FabricEstablished", "FabricFailed",
    "FabricDisconnected",     "FabricHandedOff", "FabricReleased"};
static_assert(std::size(kReportNames) == std::variant_size_v<FabricReport::variant>);

std::pair<HostId, HostId> Ordered(HostId one, HostId other) { return std::minmax(one, other); }

}  // namespace

bool FakeNetwork::IsMessage(size_t index) const { return std::holds_alternative<WireMessage>(At(index).content); }

std::string FakeNetwork::Describe(size_t index) const {
  const Delivery& delivery = At(index);
  if (const auto* message = std::get_if<WireMessage>(&delivery.content)) {
    return absl::StrCat(kMessageNames[static_cast<size_t>(message->kind)], " of wire ", message->wire.value(),
                        " from host ", message->from.value(), " to host ", message->to.value());
  }
  const auto& report = std::get<Report>(delivery.content);
  const Lane lane = LaneOf(report.host, report.report);
  return absl::StrCat("host ", report.host.value(), ": ", kReportNames[report.report.index()], " of ", lane.object);
}

void FakeNetwork::Deliver(size_t index) {
  const Delivery delivery = Take(Head(index));
  if (const auto* message = std::get_if<WireMessage>(&delivery.content)) return DeliverMessage(*message);
  const auto& report = std::get<Report>(delivery.content);
  if (const auto* released = std::get_if<FabricReleased>(&report.report)) {
    said_.erase({LaneKind::kConnection, report.host, released->connection.value()});
  }
  // The reports of a host that is gone have gone with it.
  hosts_.at(report.host)->OnReport(report.report);
}

bool FakeNetwork::DeliverNext() {
  if (heads_.empty()) return false;
  Deliver(0);
  return true;
}

size_t FakeNetwork::DeliverAll(size_t limit) {
  size_t made = 0;
  while (made < limit && DeliverNext()) ++made;
  return made;
}

void FakeNetwork::Drop(size_t index) { Take(Head(index)); }

void FakeNetwork::Duplicate(size_t index) {
  const auto head = Head(index);
  const Lane lane = head->second;
  Enqueue(lane, lanes_.at(lane).front().content);
}

void FakeNetwork::PumpWith(std::function<void(std::function<void()>)> post) {
  post_ = std::move(post);
  Pump();
}

void FakeNetwork::Pump() {
  if (!post_ || pump_posted_ || heads_.empty()) return;
  pump_posted_ = true;
  post_([weak = std::weak_ptr<FakeNetwork*>(self_)] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (*self)->DeliverAll(kPumpBatch);
    (*self)->pump_posted_ = false;
    (*self)->Pump();
  });
}

void FakeNetwork::Partition(HostId one, HostId other) { cut_.insert(Ordered(one, other)); }

void FakeNetwork::Rejoin(HostId one, HostId other) { cut_.erase(Ordered(one, other)); }

void FakeNetwork::Kill(HostId host) {
  killed_.insert(host);
  Detach(host);
}

void FakeNetwork::SetUnreachable(const IpAddress& ip, std::optional<NdkStatus> status) {
  if (status) {
    unreachable_[ip] = *status;
  } else {
    unreachable_.erase(ip);
  }
}

void FakeNetwork::SetSilent(const IpAddress& ip, bool silent) {
  if (silent) {
    silent_.insert(ip);
  } else {
    silent_.erase(ip);
  }
}

bool FakeNetwork::Occupy(const PortClaim& port) { return ports_.emplace(port, HostId()).second; }

void FakeNetwork::Vacate(const PortClaim& port) {
  const auto found = ports_.find(port);
  if (found != ports_.end() && !found->second) ports_.erase(found);
}

FakeNetwork::Lane FakeNetwork::LaneOf(HostId host, const FabricReport& report) {
  return std::visit(
      [&](const auto& typed) -> Lane {
        using Typed = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<Typed, DeviceChanged>) {
          return {LaneKind::kDevice, host, typed.device.id.value()};
        } else if constexpr (std::is_same_v<Typed, DeviceRemoved>) {
          return {LaneKind::kDevice, host, typed.device.value()};
        } else if constexpr (requires { typed.connection; }) {
          return {LaneKind::kConnection, host, typed.connection.value()};
        } else {
          return {LaneKind::kEndpoint, host, typed.endpoint.value()};
        }
      },
      report);
}

const FakeNetwork::Delivery& FakeNetwork::At(size_t index) const {
  return lanes_.at(std::next(heads_.begin(), static_cast<ptrdiff_t>(index))->second).front();
}

std::map<uint64_t, FakeNetwork::Lane>::iterator FakeNetwork::Head(size_t index) {
  return std::next(heads_.begin(), static_cast<ptrdiff_t>(index));
}

FakeNetwork::Delivery FakeNetwork::Take(std::map<uint64_t, Lane>::iterator head) {
  const Lane lane = head->second;
  heads_.erase(head);
  auto& queue = lanes_.at(lane);
  Delivery delivery = std::move(queue.front());
  queue.pop_front();
  if (queue.empty()) {
    lanes_.erase(lane);
  } else {
    heads_.emplace(queue.front().sequence, lane);
  }
  return delivery;
}

void FakeNetwork::Enqueue(const Lane& lane, std::variant<WireMessage, Report> content) {
  auto& queue = lanes_[lane];
  queue.push_back({++last_sequence_, std::move(content)});
  if (queue.size() == 1) heads_.emplace(last_sequence_, lane);
  Pump();
}

void FakeNetwork::DeliverMessage(const WireMessage& message) {
  if (IsCut(message.from, message.to) || killed_.contains(message.to)) return;
  const auto host = hosts_.find(message.to);
  if (host == hosts_.end()) return AnswerForNobody(message);
  host->second->OnMessage(message);
}

// What the kernel of a machine answers for a process that is gone.
void FakeNetwork::AnswerForNobody(const WireMessage& message) {
  WireMessage answer{.wire = message.wire, .from = message.to, .to = message.from};
  answer.to_initiator = !message.to_initiator;
  switch (message.kind) {
    case WireMessage::Kind::kRequest:
      answer.kind = WireMessage::Kind::kReject;
      answer.reason = kReasonNoListener;
      break;
    case WireMessage::Kind::kReply:
    case WireMessage::Kind::kReady:
      answer.kind = WireMessage::Kind::kAbort;
      break;
    default:
      return;
  }
  Send(std::move(answer));
}

bool FakeNetwork::IsCut(HostId one, HostId other) const { return cut_.contains(Ordered(one, other)); }

HostId FakeNetwork::Attach(FakeFabric* fabric) {
  const HostId host(++last_host_);
  hosts_[host] = fabric;
  return host;
}

void FakeNetwork::Detach(HostId host) {
  hosts_.erase(host);
  std::erase_if(ports_, [&](const auto& port) { return port.second == host; });
  std::erase_if(heads_, [&](const auto& head) { return head.second.host == host; });
  std::erase_if(lanes_, [&](const auto& lane) { return lane.first.host == host; });
  std::erase_if(said_, [&](const auto& lane) { return lane.first.host == host; });
}

void FakeNetwork::Send(WireMessage message) {
  if (killed_.contains(message.from)) return;
  const Lane lane{message.to_initiator ? LaneKind::kToInitiator : LaneKind::kToResponder, HostId(),
                  message.wire.value()};
  Enqueue(lane, std::move(message));
}

void FakeNetwork::Say(HostId host, FabricReport report) {
  if (!hosts_.contains(host)) return;
  const Lane lane = LaneOf(host, report);
  const bool again = !std::holds_alternative<FabricConnectRequested>(report);
  if (lane.kind == LaneKind::kConnection && again) said_[lane].push_back(report);
  Enqueue(lane, Report{host, std::move(report)});
}

void FakeNetwork::SayAgain(HostId host, ConnectionId connection) {
  Withdraw(host, connection);
  const Lane lane{LaneKind::kConnection, host, connection.value()};
  const auto said = said_.find(lane);
  if (said == said_.end()) return;
  for (const FabricReport& report : said->second) Enqueue(lane, Report{host, report});
}

void FakeNetwork::Withdraw(const Lane& lane) {
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return;
  heads_.erase(found->second.front().sequence);
  lanes_.erase(found);
}

FakeNetwork::Route FakeNetwork::RouteTo(const Device& from, const SocketAddress& peer) const {
  if (const auto status = unreachable_.find(peer.ip); status != unreachable_.end()) return {status->second, HostId()};
  if (silent_.contains(peer.ip)) return {};
  HostId owner;
  bool own_namespace = false;
  for (const auto& [host, fabric] : hosts_) {
    for (const auto& [id, fake] : fabric->devices_) {
      const Device& device = fake.device;
      const bool near = device.network_namespace == from.network_namespace;
      const bool has_it =
          std::find(device.addresses.begin(), device.addresses.end(), peer.ip) != device.addresses.end();
      if (!has_it || device.port_space != from.port_space || (!near && peer.ip.IsLoopback())) continue;
      if (owner && (own_namespace || !near)) continue;
      owner = host;
      own_namespace = near;
      // Where several share the namespace, the one that has the port is meant.
      const auto port = ports_.find({device.network_namespace, device.port_space, peer});
      if (port != ports_.end() && port->second) owner = port->second;
    }
  }
  if (!owner) return {NdkStatus::kHostUnreachable, HostId()};
  return {NdkStatus::kSuccess, owner};
}

bool FakeNetwork::Claim(HostId host, const Device& device, const std::vector<IpAddress>& ips, uint16_t port) {
  const auto claim = [&](const IpAddress& ip) {
    return PortClaim{device.network_namespace, device.port_space, {ip, port}};
  };
  if (std::any_of(ips.begin(), ips.end(), [&](const IpAddress& ip) { return ports_.contains(claim(ip)); })) {
    return false;
  }
  for (const IpAddress& ip : ips) ports_.emplace(claim(ip), host);
  return true;
}

void FakeNetwork::Unclaim(const Device& device, const std::vector<IpAddress>& ips, uint16_t port) {
  for (const IpAddress& ip : ips) ports_.erase({device.network_namespace, device.port_space, {ip, port}});
}

void FakeNetwork::Breach(const std::string& what) const {
  if (on_breach_) return on_breach_(what);
  std::fprintf(stderr, "fake fabric: %s\n", what.c_str());
  std::abort();
}

}  // namespace rdmabroker
