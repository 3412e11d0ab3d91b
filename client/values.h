// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_VALUES_H_
#define CLIENT_VALUES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker::client {

// How a request ended.
struct Outcome {
  NdkStatus status = NdkStatus::kSuccess;
  uint32_t provider_error = 0;  // The cause in the adapter's own numbers, for logs; 0: none known.
  bool retryable = false;       // An error only: the same request may succeed if it is just tried again.
  bool retry_same_qp = false;   // With retryable: also with the same queue pair and its posted receives.
  std::string hint;             // For a person; empty on success. Not to be parsed.

  bool ok() const { return status == NdkStatus::kSuccess; }
};

// RDMA reads in flight at a time. More than the adapter's limit counts as that limit.
struct ReadLimits {
  uint32_t inbound = 0;   // Of the peer, which this side serves.
  uint32_t outbound = 0;  // Of this side.

  bool operator==(const ReadLimits&) const = default;
};
// As many as the adapter has.
inline constexpr ReadLimits kAdaptersReads = {.inbound = UINT32_MAX, .outbound = UINT32_MAX};

// Options of one side of a connection.
struct ConnectionOptions {
  // How often the peer tries a send again that finds no receive of this side's posted, 0 to 7; 7: for ever. Else the
  // peer's queue pair breaks in the end. Over iWARP, where such a send always breaks the connection, it is ignored.
  uint32_t rnr_retry_count = 7;

  bool operator==(const ConnectionOptions&) const = default;
};

// What is known of a connection.
struct ConnectionData {
  SocketAddress local;
  SocketAddress peer;
  ReadLimits limits;         // Effective, as far as both sides have spoken.
  std::string private_data;  // The whole area of the peer's last message, perhaps padded with zeros.
  bool three_way = false;    // Whether the handshake has a third message.
};

// An established connection has ended other than by this side.
struct DisconnectEvent {
  // kSuccess: the peer disconnected gracefully. kConnectionAborted: it or its host failed, or closed abortively.
  // kIoTimeout: it no longer answers. kDeviceRemoved: this side's device is gone. kConnectionDisconnected and
  // kRequestAborted: the session is over (Session), and nobody watches the connection any more.
  NdkStatus status = NdkStatus::kSuccess;
  uint32_t provider_error = 0;  // As Outcome's.
  std::string hint;             // Who noticed, what it means and what to do; empty on success. Not to be parsed.
};

// Which ports an adapter shares with others; numbers as PortSpace in address.proto.
enum class PortSpace : uint32_t { kUnspecified = 0, kRdmaCm = 1, kTcp = 2 };

// An RDMA device that the broker knows.
struct Device {
  std::string name;  // What Session::OpenAdapter takes.
  AdapterInfo info;
  std::vector<IpAddress> addresses;
  PortSpace port_space = PortSpace::kUnspecified;
  uint64_t network_namespace = 0;        // The inode of /proc/PID/ns/net.
  bool client_ends_connections = false;  // Adapter::client_ends_connections.
  bool usable = false;
  std::string unusable_reason;  // For a person; empty if usable.
  // Bytes of payload in a packet, at most. 0: iWARP, where TCP sees to it; no active port; or an older broker.
  uint32_t mtu = 0;
};

// What has happened to the device beneath an adapter.
enum class AdapterEvent : uint8_t {
  kRemoved,   // It is gone: the adapter's objects can only be closed.
  kDisabled,  // An administrator waits until the adapter is closed; everything goes on until then.
};

// NDK_FN_REQUEST_COMPLETION.
using OutcomeCompletion = std::function<void(const Outcome&)>;
// NDK_FN_CREATE_COMPLETION. The object is null unless the outcome is success.
template <typename Object>
using CreateCompletion = std::function<void(const Outcome&, std::shared_ptr<Object>)>;
// NDK_FN_DISCONNECT_EVENT_CALLBACK_EX.
using DisconnectEventCallback = std::function<void(const DisconnectEvent&)>;

// At most once for each event.
using AdapterEventCallback = std::function<void(AdapterEvent)>;

}  // namespace rdmabroker::client

#endif  // CLIENT_VALUES_H_
