// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_FAKE_FAKE_FABRIC_H_
#define BROKER_FABRIC_FAKE_FAKE_FABRIC_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "broker/fabric/fabric.h"
#include "broker/fabric/fake/fake_network.h"

namespace rdmabroker {

// The reasons that a peer's FabricConnectFailed or FabricFailed carries as provider_error: those of InfiniBand's
// communication manager (InfiniBand Architecture Specification, volume 1, 12.6.7.2).
inline constexpr uint32_t kReasonNoListener = 8;
inline constexpr uint32_t kReasonConsumer = 28;

// A device of a FakeFabric, and in what it differs from others.
struct FakeDevice {
  Device device;
  bool three_way = true;            // There is a third message, if the peer's device has it too.
  bool pads_private_data = false;   // Received private data is padded with zeros to the largest size.
  bool releases_gracefully = true;  // Giving up an established connection disconnects it; else it aborts it.
  bool reports_abandonment = true;  // FabricFailed where a peer gives up before Accept; else Accept finds out.
  bool releases_slowly = false;     // FabricReleased waits for FinishReleases.
};

// A device as tests want it: name, one namespace for each `network_namespace`, limits that can be reached, and room for
// private data as InfiniBand has it (56 and 148 bytes).
Device MakeFakeDevice(DeviceId id, std::string name, uint64_t network_namespace, std::vector<IpAddress> addresses);

// The route of a host with these devices, which the network leads from each to everywhere: from the destination itself,
// where one of them has it, else from the first address of its family.
Route FakeRoute(const std::vector<FakeDevice>& devices, const SocketAddress& destination);

// A fabric in memory. Keeps the contract of fabric_messages.h as the real ones do, and sees to it that the core does:
// see FakeNetwork::OnBreach. Requests act at once; every report but Start's goes through the network.
class FakeFabric final : public Fabric {
 public:
  // What a fault can be planted in.
  enum class Step : uint8_t { kBind, kRepurpose, kConnect, kComplete, kAccept, kDisconnect };
  struct Fault {
    NdkStatus status = NdkStatus::kUnsuccessful;
    uint32_t provider_error = 0;
    bool qp_reusable = true;  // Of a FabricConnectFailed.
  };

  // `network` outlives the fabric. The hosts of one network namespace share ports and loopback addresses.
  FakeFabric(FakeNetwork& network, std::vector<FakeDevice> devices);
  // The end of the process: peers see their connections abort, unless the host was killed.
  ~FakeFabric() override;
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;
  Route RouteTo(const SocketAddress& destination) const override;

  [[nodiscard]] HostId host() const { return host_; }

  // --- The world ---

  // With an id that no device has had.
  void AddDevice(FakeDevice device);
  void SetAddresses(DeviceId device, std::vector<IpAddress> addresses);
  // Device::unusable_reason.
  void SetUnusable(DeviceId device, std::string reason);
  // Its connections abort; their peers learn of it, this core only that the device is gone.
  void RemoveDevice(DeviceId device);
  // The next request of this kind on the device fails so; several calls for several requests.
  void FailNext(DeviceId device, Step step, Fault fault);
  // The process has died, and this is the fabric of the next: of every device something is to be adopted, and those
  // that are there are reported again.
  void GoOnAsAnother();
  // Before it: the process had been told, and died before it knew.
  void ReportAgain(const FabricConnectRequested& report);
  // Reports the releases that a slow device has kept back.
  void FinishReleases(DeviceId device);

  // --- The transport of devices whose clients end connections ---

  // The client presents the secret: once, for an established connection that is not given up, the transport is its own.
  // Nothing for any other.
  std::optional<ConnectionId> Fetch(const HandoffSecret& secret);
  // The client ends the transport that it has fetched; false where it has ended it before. A process that dies does so
  // abortively.
  bool EndTransport(ConnectionId connection, bool graceful);
  // Told when the peer ends a fetched transport that its client has not ended, once for each.
  void OnTransportEnd(std::function<void(ConnectionId, bool graceful)> sink) { transport_sink_ = std::move(sink); }

  // --- What is there; nothing of it when everything was unbound, released and ended ---

  [[nodiscard]] size_t endpoints() const { return endpoints_.size(); }
  [[nodiscard]] size_t connections() const { return connections_.size() + releasing_.size(); }
  [[nodiscard]] size_t transports() const { return transports_.size(); }

 private:
  friend class FakeNetwork;

  struct Endpoint {
    DeviceId device;
    EndpointUse use = EndpointUse::kListener;
    std::vector<IpAddress> ips;
    uint16_t port = 0;
    bool listening = false;  // From the moment that its FabricBound has been reported.
  };

  // kEnded: over, and nothing of it is to be reported any more but its release.
  enum class State : uint8_t { kConnecting, kReplied, kRequested, kAccepting, kEstablished, kDisconnecting, kEnded };

  // One end of a wire.
  struct End {
    WireId wire;
    bool initiator = false;
    HostId peer;

    auto operator<=>(const End&) const = default;
  };

  struct Connection {
    ConnectionId id;
    DeviceId device;
    EndpointId endpoint;
    State state = State::kConnecting;
    End end;
    bool three_way = true;
    bool reported = true;     // False for an incoming one until its FabricConnectRequested is out.
    bool abandoned = false;   // The peer gave up before Accept, and nobody was told.
    bool peer_waits = false;  // The peer has disconnected and waits until we have.
    QpNumber qp;
    std::optional<HandoffSecret> handoff;
    bool handed_off = false;  // The transport is, or was, the client's.
  };

  // Given up, its FabricReleased not out.
  struct Releasing {
    DeviceId device;
    bool kept_back = false;  // By a slow device; else it is on its way.
  };

  struct Transport {
    End end;
    bool peer_ended = false;
  };

  void Carry(const FabricBind& request);
  void Carry(const FabricRepurpose& request);
  void Carry(const FabricRebind& request);
  void Carry(const FabricUnbind& request);
  void Carry(const FabricConnect& request);
  void Carry(const FabricComplete& request);
  void Carry(const FabricAccept& request);
  void Carry(const FabricReject& request);
  void Carry(const FabricRefuse& request);
  void Carry(const FabricDisconnect& request);
  void Carry(const FabricRelease& request);
  void Carry(const FabricAdoptEndpoint& request);
  void Carry(const FabricAdoptConnection& request);
  void Carry(const FabricAdopted& request);

  // Whether the request comes again, and was carried out before the broker died; it is answered then.
  bool HasDone(const FabricRequest& request);
  bool HasDone(const FabricBind& request);
  bool HasDone(const FabricRepurpose& request);
  bool HasDone(const FabricUnbind& request);
  bool HasDone(const FabricComplete& request);
  bool HasDone(const FabricAccept& request);
  bool HasDone(const FabricDisconnect& request);
  bool HasDone(const FabricReject& request);
  bool HasDone(const FabricRefuse& request);
  bool HasDone(const FabricRelease& request);
  template <typename Other>
  bool HasDone(const Other&) {
    return false;
  }
  bool HasGivenUp(ConnectionId connection);
  // Of a connection that is to be adopted and is not there.
  void SayLost(const FabricAdoptConnection& request);

  // From the network.
  void OnReport(const FabricReport& report);
  void OnMessage(const WireMessage& message);
  void OnRequest(const WireMessage& message);
  void OnReply(Connection& connection, const WireMessage& message);
  void OnReady(Connection& connection);
  void OnPeerGone(Connection& connection, const WireMessage& message);
  void OnTransportMessage(ConnectionId id, const WireMessage& message);

  const FakeDevice* Find(DeviceId device) const;  // Nothing for one that is gone.
  std::optional<Fault> TakeFault(DeviceId device, Step step);
  // Why the endpoint cannot be bound, or nothing; then its ports are the host's.
  std::optional<Fault> ClaimPorts(const FabricBind& request);
  // The connection in one of `states`, or in kEnded; nothing after a breach.
  Connection* Expect(ConnectionId id, std::initializer_list<State> states, const char* request);
  void SendOn(const Connection& connection, WireMessage::Kind kind);
  void SendOn(const End& end, WireMessage message);
  void Establish(Connection& connection);
  // Ends what was not established with FabricFailed.
  void Fail(Connection& connection, const Fault& fault);
  void Disconnected(Connection& connection, NdkStatus status);
  // The core has given it up.
  void Drop(ConnectionId id);
  void Forget(const Connection& connection);
  std::vector<QpAttributes> AttributesFor(const FakeDevice& device, bool three_way, const WireMessage& peer) const;
  Bytes Received(const FakeDevice& device, const Bytes& data, uint32_t area) const;
  EndpointId ListenerAt(const WireMessage& request) const;

  FakeNetwork& network_;
  const HostId host_;
  ReportSink sink_;
  std::function<void(ConnectionId, bool)> transport_sink_;
  std::map<DeviceId, FakeDevice> devices_;
  std::map<DeviceId, Device> removed_;
  std::map<std::pair<DeviceId, Step>, std::deque<Fault>> faults_;
  std::map<EndpointId, Endpoint> endpoints_;
  std::map<ConnectionId, Connection> connections_;
  std::map<ConnectionId, Releasing> releasing_;
  std::map<ConnectionId, Transport> transports_;
  std::map<std::pair<WireId, bool>, ConnectionId> wires_;  // By the wire and whether it is its initiator's end.
  std::set<WireId> seen_wires_;                            // So that a request that comes twice is one.
  uint64_t last_incoming_ = 0;
  // Between a device's first adoption and its FabricAdopted.
  std::set<DeviceId> recovering_;
  std::set<ConnectionId> adopted_;
  std::set<EndpointId> adopted_endpoints_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_FAKE_FAKE_FABRIC_H_
