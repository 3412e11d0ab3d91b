// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_HANDSHAKE_STEPS_H_
#define BROKER_MONITORING_HANDSHAKE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/core/tally.h"

namespace rdmabroker {

// Between what is asked of a fabric and what it reports, but for kDecide, which is between its report and the client.
enum class HandshakeStep : uint8_t {
  kBind,        // Of the address that a connector, a shared endpoint or, passive, a listener has asked for.
  kConnect,     // From the request to the peer until its reply.
  kComplete,    // From CompleteConnect until the connection is established.
  kDecide,      // From a peer's request until the client has accepted or rejected it, or closed its connector.
  kAccept,      // From Accept until the connection is established.
  kHandOff,     // From then until the client has taken the transport over, where it does.
  kDisconnect,  // From Disconnect until the peer has disconnected, too, where the fabric does it.
};
inline constexpr size_t kHandshakeSteps = static_cast<size_t>(HandshakeStep::kDisconnect) + 1;

// Times the steps of handshakes by a core's events and effects. A step that does not succeed is not timed, nor one that
// a former process has begun. Its memory is bounded by the fabrics' endpoints and connections, each of which is in one
// step at most.
class HandshakeSteps {
 public:
  using Sink = std::function<void(Side, HandshakeStep, absl::Duration)>;

  explicit HandshakeSteps(Sink done) : done_(std::move(done)) {}

  // What the core made of `event` at `now`.
  void Observe(Instant now, const Event& event, const Effects& effects);
  size_t under_way() const { return endpoints_.size() + connections_.size(); }

 private:
  struct Begun {
    HandshakeStep step;
    Side side;
    Instant at;
  };

  void Take(Instant now, const FabricReport& report);
  void Take(Instant now, const FabricRequest& request);
  void Begin(Instant now, ConnectionId connection, HandshakeStep step);
  // The connection's step, if it is this one, has succeeded.
  void End(Instant now, ConnectionId connection, HandshakeStep step);
  void Forget(ConnectionId connection) { connections_.erase(connection); }

  const Sink done_;
  absl::flat_hash_map<EndpointId, Begun> endpoints_;
  absl::flat_hash_map<ConnectionId, Begun> connections_;
};

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_HANDSHAKE_STEPS_H_
