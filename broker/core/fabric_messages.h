// SPDX-License-Identifier: Apache-2.0

// What the core asks of a fabric and what a fabric reports, as plain values. The contract:
//
//   - A fabric takes requests in the order in which the core made them, and reports an object's events in the order
//     in which they happened. Nothing here is a pointer or a descriptor.
//   - An endpoint exists at the fabric from FabricBind until FabricUnbound. FabricBind and FabricRepurpose are answered
//     by FabricBound or FabricBindFailed; after a failed FabricBind nothing is held and nothing needs unbinding; after
//     a failed FabricRepurpose the endpoint is as it was.
//   - A connection exists from FabricConnect, or from the fabric's FabricConnectRequested, until FabricReleased. The
//     core gives every connection up exactly once, by FabricRelease, FabricReject or FabricRefuse, and does so too
//     after the fabric reported it failed or disconnected; the fabric then answers FabricReleased exactly once, after
//     which the connection's address is in nobody's way. Giving up an established connection closes it abortively or
//     gracefully, as the technology has it; the peer learns of it.
//   - A core whose process has died is gone on with by another process's (Recover in messages.h), whose fabric takes
//     over from the one that died with it. Its first reports say of each device that the core knows whether it is still
//     there: DeviceChanged, with the id that it had, or DeviceRemoved. It is told what the fabric before it had, by
//     FabricAdoptEndpoint and FabricAdoptConnection; then each request that the core has no answer to comes once more;
//     then, for each device, FabricAdopted. A request in between that has been carried out already is answered as if
//     it were carried out now; one of a connection whose fate nobody can tell fails with CONNECTION_ABORTED. What has
//     happened meanwhile is reported, too, and what the core had been told may come once more. What nobody has adopted
//     by then ends, and its peers learn of it. The ids that the fabric mints from then on are none of the adopted
//     connections'.
//   - After FabricRelease, FabricReject or FabricRefuse the core ignores the connection's other events. After a report
//     that the connection failed or disconnected, the fabric ignores requests that crossed it, but for giving it up.

#ifndef BROKER_CORE_FABRIC_MESSAGES_H_
#define BROKER_CORE_FABRIC_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "broker/core/ids.h"
#include "broker/core/secrets.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

using Bytes = std::vector<uint8_t>;

// RDMA reads in flight that a side serves (inbound) and issues (outbound).
struct ReadLimits {
  uint32_t inbound = 0;
  uint32_t outbound = 0;

  bool operator==(const ReadLimits&) const = default;
};

// Options of one side of a connection, besides its read limits.
struct ConnectionOptions {
  // How often the peer tries a send again that finds no receive of this side's; 7: for ever (InfiniBand Architecture
  // Specification, volume 1, 9.7.5.2.8). InfiniBand and RoCE.
  static constexpr uint32_t kForEver = 7;
  uint32_t rnr_retry_count = kForEver;

  bool operator==(const ConnectionOptions&) const = default;
};

// How the system would send to a destination.
struct Route {
  // Or why there is no source: kNetworkUnreachable, kHostUnreachable, kAccessDenied, kInsufficientResources.
  NdkStatus status = NdkStatus::kNetworkUnreachable;
  IpAddress source;  // The address that it sends from, of whatever device.

  bool operator==(const Route&) const = default;
};

// What two devices share when their ports can collide.
enum class PortSpace : uint8_t {
  kRdmaCm,  // InfiniBand and RoCE: rdma_cm's RDMA_PS_TCP, apart from the host's TCP.
  kTcp,     // iWARP, in hardware and in user space: the host's TCP ports.
};

// In bytes: adapter.proto, Device.name. The kernel's have no longer ones (IB_DEVICE_NAME_MAX).
inline constexpr size_t kMaxDeviceName = 63;

// A device as its fabric describes it. A device with the same name that comes back has a new id.
struct Device {
  DeviceId id;
  std::string name;  // "iwarp0", "mlx5_0": what OpenAdapter names it by. At most kMaxDeviceName.
  AdapterInfo info;
  uint64_t network_namespace = 0;  // The namespace's inode number; addresses in different ones never conflict.
  PortSpace port_space = PortSpace::kRdmaCm;
  std::vector<IpAddress> addresses;  // Local unicast addresses that an endpoint on it may have. Sorted.
  // The client's data path holds the transport once established, and ends it: it disconnects itself and reports the
  // end. Otherwise the fabric sees the end of every connection and disconnects when the core asks.
  bool client_ends_connections = false;
  // The fabric moves the client's queue pairs, and one whose connect has been given up may still be moved until its
  // connection is released: it cannot be used again before.
  bool keeps_qps_until_released = false;
  // For a person: why no adapter can be opened on it now, and what to do. Empty where one can.
  std::string unusable_reason;
  // Bytes of payload in a packet, at most; 0 where TCP sees to it, or no port is active.
  uint32_t mtu = 0;

  bool operator==(const Device&) const = default;
};

// Whether an address can only be on one of the two at a time, so that a listener may move with it to the other.
inline bool AreOfOneKind(const Device& one, const Device& other) {
  return one.network_namespace == other.network_namespace && one.port_space == other.port_space &&
         one.client_ends_connections == other.client_ends_connections;
}

// --- Requests ---

enum class EndpointUse : uint8_t {
  kListener,   // Bound and listening with the largest backlog the system has; requests are reported.
  kDedicated,  // Bound; one connector's connections start from it.
  kShared,     // Bound so that several connections can start from it.
  kReserved,   // Bound and nothing else; FabricRepurpose may turn it into a listener or a shared endpoint.
};

// Binds to `port` on every one of `ips`, all or nothing.
struct FabricBind {
  DeviceId device;
  EndpointId endpoint;
  EndpointUse use = EndpointUse::kListener;
  std::vector<IpAddress> ips;
  uint16_t port = 0;

  bool operator==(const FabricBind&) const = default;
};

// Turns a reserved endpoint into another use without letting go of its address.
struct FabricRepurpose {
  DeviceId device;
  EndpointId endpoint;
  EndpointUse use = EndpointUse::kListener;

  bool operator==(const FabricRepurpose&) const = default;
};

// From now on the endpoint is on this device, which may be another one of the fabric than before, at these addresses.
// The fabric binds the new ones and lets go of the others, as far as it can. It does not answer: it tries again each
// second, and at each change, what it cannot bind.
struct FabricRebind {
  DeviceId device;
  EndpointId endpoint;
  std::vector<IpAddress> ips;

  bool operator==(const FabricRebind&) const = default;
};

struct FabricUnbind {
  DeviceId device;
  EndpointId endpoint;

  bool operator==(const FabricUnbind&) const = default;
};

// Answered by FabricReplied or FabricConnectFailed.
struct FabricConnect {
  DeviceId device;
  ConnectionId connection;
  EndpointId endpoint;
  SessionId session;  // Whose queue pair it must be.
  QpNumber qp;
  SocketAddress local;
  SocketAddress peer;
  ReadLimits limits;  // Offered; within the device's.
  Bytes private_data;
  int32_t process = 0;  // The session's, for who has made the queue pair; 0: not visible from here.
  uint32_t uid = 0;     // The session's user, for what is shared among users.
  // The core chose the local port, and tries another one. So where a connection to `peer` has it already, the fabric
  // fails with ADDRESS_ALREADY_EXISTS and does not wait for that connection's end.
  bool any_port = false;
  ConnectionOptions options = {};

  bool operator==(const FabricConnect&) const = default;
};

// Sends the third message where there is one. Answered by FabricEstablished or FabricFailed.
struct FabricComplete {
  DeviceId device;
  ConnectionId connection;
  ReadLimits limits;  // Effective.

  bool operator==(const FabricComplete&) const = default;
};

// Answered by FabricEstablished or FabricFailed.
struct FabricAccept {
  DeviceId device;
  ConnectionId connection;
  SessionId session;
  QpNumber qp;
  ReadLimits limits;  // Effective, and what the peer is told.
  Bytes private_data;
  int32_t process = 0;  // As FabricConnect's.
  uint32_t uid = 0;     // As FabricConnect's.
  ConnectionOptions options = {};

  bool operator==(const FabricAccept&) const = default;
};

// Refuses an undecided incoming connection, or a replied one of our own, with data for the peer's consumer.
struct FabricReject {
  DeviceId device;
  ConnectionId connection;
  Bytes private_data;

  bool operator==(const FabricReject&) const = default;
};

// Refuses an undecided incoming connection as if nothing listened there, as far as the wire can say that.
struct FabricRefuse {
  DeviceId device;
  ConnectionId connection;

  bool operator==(const FabricRefuse&) const = default;
};

// Disconnects an established connection gracefully. Answered by FabricDisconnected when the peer has disconnected too
// (some iWARP devices: when it has been told), or it failed. Never asked of a device whose client ends connections.
struct FabricDisconnect {
  DeviceId device;
  ConnectionId connection;

  bool operator==(const FabricDisconnect&) const = default;
};

struct FabricRelease {
  DeviceId device;
  ConnectionId connection;
  // The client says that it has ended the transport that it fetched, which it may say before the fabric has learned
  // that it has it: the fabric closes what it still holds of it, and resets nothing.
  bool client_ended = false;

  bool operator==(const FabricRelease&) const = default;
};

// The endpoint has been bound so. Where the fabric does not find it any more it binds it again, as FabricRebind does.
struct FabricAdoptEndpoint {
  DeviceId device;
  EndpointId endpoint;
  EndpointUse use = EndpointUse::kListener;
  std::vector<IpAddress> ips;
  uint16_t port = 0;

  bool operator==(const FabricAdoptEndpoint&) const = default;
};

// How far a connection had come, as far as its core knew. What it was asked for since comes once more.
enum class AdoptedStage : uint8_t {
  kConnecting,  // FabricConnect, which does not come again. Answered as that is.
  kRequested,
  kReplied,
  kEstablished,
  kOver,  // Given up.
};

// Where the fabric does not find the connection any more, or finds that it has come to an end, it reports that; for
// kOver it waits for what gives it up.
struct FabricAdoptConnection {
  DeviceId device;
  ConnectionId connection;
  EndpointId endpoint;  // 0 where it was requested of one that is gone.
  AdoptedStage stage = AdoptedStage::kConnecting;
  SocketAddress local;
  SocketAddress peer;

  bool operator==(const FabricAdoptConnection&) const = default;
};

// That was all of the device's.
struct FabricAdopted {
  DeviceId device;

  bool operator==(const FabricAdopted&) const = default;
};

struct FabricRequest : std::variant<FabricBind, FabricRepurpose, FabricRebind, FabricUnbind, FabricConnect,
                                    FabricComplete, FabricAccept, FabricReject, FabricRefuse, FabricDisconnect,
                                    FabricRelease, FabricAdoptEndpoint, FabricAdoptConnection, FabricAdopted> {
  using variant::variant;
  FabricRequest();
  FabricRequest(const FabricRequest&);
  FabricRequest(FabricRequest&&) noexcept;
  FabricRequest& operator=(const FabricRequest&);
  FabricRequest& operator=(FabricRequest&&) noexcept;
  ~FabricRequest();
  bool operator==(const FabricRequest& other) const;
};

// --- Reports ---

// A device is there, or its addresses or capabilities have changed. One that says nothing new changes nothing, but as
// with every report what its fabric has noted is stored.
struct DeviceChanged {
  Device device;

  bool operator==(const DeviceChanged&) const = default;
};

// The device is gone. Its endpoints and connections are still to be unbound and released.
struct DeviceRemoved {
  DeviceId device;

  bool operator==(const DeviceRemoved&) const = default;
};

struct FabricBound {
  EndpointId endpoint;

  bool operator==(const FabricBound&) const = default;
};

// SHARING_VIOLATION where somebody outside the broker has the address.
struct FabricBindFailed {
  EndpointId endpoint;
  NdkStatus status = NdkStatus::kUnsuccessful;
  uint32_t provider_error = 0;  // errno.

  bool operator==(const FabricBindFailed&) const = default;
};

struct FabricUnbound {
  EndpointId endpoint;

  bool operator==(const FabricUnbound&) const = default;
};

struct FabricConnectRequested {
  EndpointId endpoint;
  ConnectionId connection;  // Minted by the fabric with IncomingConnection.
  SocketAddress local;      // Concrete, on wildcard listeners too.
  SocketAddress peer;
  ReadLimits peer_limits;  // From the peer's point of view.
  Bytes private_data;      // The whole area; some technologies pad it with zeros.
  bool three_way = true;   // False where there is no third message: Accept ends with the reply.
  std::vector<QpAttributes> qp_attributes;
  // Where it arrived, as the endpoint may have moved since. 0: where the endpoint is.
  DeviceId device = {};

  bool operator==(const FabricConnectRequested&) const = default;
};

// The peer accepted; FabricComplete or FabricReject is next.
struct FabricReplied {
  ConnectionId connection;
  ReadLimits peer_limits;
  Bytes private_data;
  bool three_way = true;
  std::vector<QpAttributes> qp_attributes;

  bool operator==(const FabricReplied&) const = default;
};

struct FabricConnectFailed {
  ConnectionId connection;
  NdkStatus status = NdkStatus::kUnsuccessful;
  uint32_t provider_error = 0;  // The technology's own reason, or an errno.
  Bytes private_data;           // The peer's, where it rejected.
  bool qp_reusable = true;      // False where the attempt has spoiled the queue pair.
  std::string explanation;      // For a person, where the status does not tell enough; may be empty.

  bool operator==(const FabricConnectFailed&) const = default;
};

struct FabricEstablished {
  ConnectionId connection;
  std::optional<HandoffSecret> handoff;

  bool operator==(const FabricEstablished&) const = default;
};

// FabricAccept or FabricComplete failed, or the peer gave a connection up before it was established.
struct FabricFailed {
  ConnectionId connection;
  NdkStatus status = NdkStatus::kConnectionAborted;
  uint32_t provider_error = 0;
  Bytes private_data;       // The peer's, where it rejected the reply and the technology carries that.
  std::string explanation;  // As FabricConnectFailed's.

  bool operator==(const FabricFailed&) const = default;
};

// An established connection's end: the answer to FabricDisconnect, or the peer's doing.
struct FabricDisconnected {
  ConnectionId connection;
  NdkStatus status = NdkStatus::kSuccess;  // SUCCESS: gracefully. IO_TIMEOUT, CONNECTION_ABORTED: not.
  uint32_t provider_error = 0;

  bool operator==(const FabricDisconnected&) const = default;
};

// The client has taken the transport over; the fabric sees nothing more of the connection until its release.
struct FabricHandedOff {
  ConnectionId connection;

  bool operator==(const FabricHandedOff&) const = default;
};

struct FabricReleased {
  ConnectionId connection;

  bool operator==(const FabricReleased&) const = default;
};

struct FabricReport : std::variant<DeviceChanged, DeviceRemoved, FabricBound, FabricBindFailed, FabricUnbound,
                                   FabricConnectRequested, FabricReplied, FabricConnectFailed, FabricEstablished,
                                   FabricFailed, FabricDisconnected, FabricHandedOff, FabricReleased> {
  using variant::variant;
  FabricReport();
  FabricReport(const FabricReport&);
  FabricReport(FabricReport&&) noexcept;
  FabricReport& operator=(const FabricReport&);
  FabricReport& operator=(FabricReport&&) noexcept;
  ~FabricReport();
  bool operator==(const FabricReport& other) const;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_FABRIC_MESSAGES_H_
