// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_FAKE_FAKE_NETWORK_H_
#define BROKER_FABRIC_FAKE_FAKE_NETWORK_H_

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

class FakeFabric;

// One FakeFabric on the network: a broker's machine, or a part of one.
using HostId = Id<struct HostKind>;
// One attempt to connect as the network sees it; both of its ends know it.
using WireId = Id<struct WireKind>;

// What hosts send each other.
struct WireMessage {
  enum class Kind : uint8_t { kRequest, kReply, kReady, kReject, kDisconnect, kAbort };

  Kind kind = Kind::kAbort;
  WireId wire;
  bool to_initiator = false;
  HostId from;
  HostId to;
  SocketAddress source;  // These three only in a kRequest.
  SocketAddress destination;
  PortSpace port_space = PortSpace::kRdmaCm;
  QpNumber qp;
  ReadLimits limits;  // The sender's, as its options.
  ConnectionOptions options;
  Bytes private_data;
  bool three_way = true;  // The sender can do three; kReply: what it will be.
  uint32_t reason = 0;    // Of a kReject.
};

// A local address and port as the hosts of one network namespace share them.
struct PortClaim {
  uint64_t network_namespace = 0;
  PortSpace port_space = PortSpace::kRdmaCm;
  SocketAddress address;

  auto operator<=>(const PortClaim&) const = default;
};

// The network between FakeFabrics, and their reports on the way to their cores. Whatever a fabric sends or reports
// waits here until the owner delivers it, one at a time and in an order of the owner's choosing; or until a pump does,
// at once and in order. Reports about one object, and messages of one connection in one direction, keep their order.
//
// Deterministic and without threads: the network, its fabrics and the owner live on one thread. Outlives its fabrics.
class FakeNetwork {
 public:
  FakeNetwork() = default;
  FakeNetwork(const FakeNetwork&) = delete;
  FakeNetwork& operator=(const FakeNetwork&) = delete;

  // --- Delivery ---

  // How many deliveries could be made next. They are numbered from 0, the oldest first.
  [[nodiscard]] size_t deliverable() const { return heads_.size(); }
  // Whether the `index`-th is a message between hosts, which can be lost and doubled; reports cannot.
  [[nodiscard]] bool IsMessage(size_t index) const;
  // "request of wire 3 from host 1 to host 2", "host 2: FabricBound".
  [[nodiscard]] std::string Describe(size_t index) const;
  void Deliver(size_t index);
  // The oldest. False when nothing waits.
  bool DeliverNext();
  // Until nothing waits, or `limit` have been made: two cores that answer each other for ever are a bug. Returns how
  // many were made.
  size_t DeliverAll(size_t limit = 1'000'000);
  // The `index`-th, which is a message, is lost; or comes once more, after the last of its direction.
  void Drop(size_t index);
  void Duplicate(size_t index);

  // From now on everything is delivered by functions that `post` runs later on the same thread, an event loop's Post.
  // They do nothing after the network's end. `post` is called as long as there are fabrics: their end sends, too.
  void PumpWith(std::function<void(std::function<void()>)> post);

  // --- Faults ---

  // Messages between the two hosts are lost, those on their way too, until Rejoin.
  void Partition(HostId one, HostId other);
  void Rejoin(HostId one, HostId other);
  // The host's power is gone: its peers hear nothing, ever. Its FakeFabric is good for nothing but its destruction.
  // Destroying a FakeFabric without this is the end of a process, whose kernel ends its connections.
  void Kill(HostId host);
  // FabricConnect to `ip` fails with this (NETWORK_UNREACHABLE, HOST_UNREACHABLE); nothing makes it good again. An
  // address that no host has is HOST_UNREACHABLE without that.
  void SetUnreachable(const IpAddress& ip, std::optional<NdkStatus> status);
  // Nobody answers at `ip`, neither yes nor no.
  void SetSilent(const IpAddress& ip, bool silent);

  // A process outside every broker takes the address; false where somebody has it. And gives it back.
  bool Occupy(const PortClaim& port);
  void Vacate(const PortClaim& port);

  // Called where a core breaks the contract of fabric_messages.h. Unless set: prints it and ends the process.
  void OnBreach(std::function<void(const std::string&)> on_breach) { on_breach_ = std::move(on_breach); }

 private:
  friend class FakeFabric;

  // What keeps its order: the reports of a host's object, or one direction of a wire.
  enum class LaneKind : uint8_t { kDevice, kEndpoint, kConnection, kToInitiator, kToResponder };
  struct Lane {
    LaneKind kind = LaneKind::kDevice;
    HostId host;  // 0 for a wire.
    uint64_t object = 0;

    auto operator<=>(const Lane&) const = default;
  };
  struct Report {
    HostId host;
    FabricReport report;
  };
  struct Delivery {
    uint64_t sequence = 0;
    std::variant<WireMessage, Report> content;
  };

  // A connection request's way. HostId() where nobody answers.
  struct Route {
    NdkStatus status = NdkStatus::kSuccess;
    HostId host;
  };

  static Lane LaneOf(HostId host, const FabricReport& report);
  const Delivery& At(size_t index) const;
  std::map<uint64_t, Lane>::iterator Head(size_t index);
  Delivery Take(std::map<uint64_t, Lane>::iterator head);
  void Enqueue(const Lane& lane, std::variant<WireMessage, Report> content);
  void Pump();
  void DeliverMessage(const WireMessage& message);
  void AnswerForNobody(const WireMessage& message);
  bool IsCut(HostId one, HostId other) const;

  // For FakeFabric.
  HostId Attach(FakeFabric* fabric);
  void Detach(HostId host);
  WireId NewWire() { return WireId(++last_wire_); }
  void Send(WireMessage message);
  void Say(HostId host, FabricReport report);
  void Withdraw(HostId host, ConnectionId connection) { Withdraw({LaneKind::kConnection, host, connection.value()}); }
  void Withdraw(HostId host, EndpointId endpoint) { Withdraw({LaneKind::kEndpoint, host, endpoint.value()}); }
  void Withdraw(const Lane& lane);
  // All that has been said of the connection but that it was requested.
  void SayAgain(HostId host, ConnectionId connection);
  Route RouteTo(const Device& from, const SocketAddress& peer) const;
  // All or nothing.
  bool Claim(HostId host, const Device& device, const std::vector<IpAddress>& ips, uint16_t port);
  void Unclaim(const Device& device, const std::vector<IpAddress>& ips, uint16_t port);
  void Breach(const std::string& what) const;

  uint64_t last_sequence_ = 0;
  uint64_t last_host_ = 0;
  uint64_t last_wire_ = 0;
  std::map<Lane, std::deque<Delivery>> lanes_;      // None empty.
  std::map<uint64_t, Lane> heads_;                  // The first of each lane, by its sequence.
  std::map<Lane, std::vector<FabricReport>> said_;  // Of each connection, until its release was delivered.
  std::map<HostId, FakeFabric*> hosts_;
  std::set<HostId> killed_;
  std::set<std::pair<HostId, HostId>> cut_;
  std::map<IpAddress, NdkStatus> unreachable_;
  std::set<IpAddress> silent_;
  std::map<PortClaim, HostId> ports_;  // HostId() for outsiders.
  std::function<void(std::function<void()>)> post_;
  bool pump_posted_ = false;
  std::shared_ptr<FakeNetwork*> self_ = std::make_shared<FakeNetwork*>(this);  // Posted functions know it weakly.
  std::function<void(const std::string&)> on_breach_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_FAKE_FAKE_NETWORK_H_
