// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SIMULATION_MODEL_CLIENT_H_
#define TESTS_SIMULATION_MODEL_CLIENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "broker/core/limits.h"
#include "broker/core/messages.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "tests/simulation/dice.h"

namespace rdmabroker {

// Where somebody has listened.
struct Target {
  PortSpace port_space = PortSpace::kRdmaCm;
  SocketAddress address;
};

// What clients share.
struct Surroundings {
  Dice& dice;
  const Limits& limits;
  std::vector<Target> targets;
  uint64_t last_token = 0;  // Of the attempts to connect: each carries its own in its private data.
  bool calm = false;        // Nobody does anything senseless any more.
};

// The attempt's number in the first bytes of private data; 0 where there is none.
uint64_t TokenIn(const Bytes& private_data);

// A process that uses the broker: mostly as one should, sometimes not. It knows what it has been told, and nothing
// else. Whatever carries its messages may lose and double them.
class ModelClient {
 public:
  // `devices` are those of its broker, by their names; `fabric` is its broker's.
  ModelClient(Surroundings& world, const std::map<std::string, Device>& devices, FakeFabric& fabric)
      : world_(world), devices_(devices), fabric_(fabric) {}

  // --- The session ---
  Identity identity;
  SessionSecret secret = {};
  SessionId session;  // 0: none.
  StreamId stream;    // 0: away.

  // Forgets everything that belonged to a session; it has ended.
  void Forget();
  [[nodiscard]] EventNumber seen() const { return seen_; }

  // --- Requests ---

  // Something to ask, or to ask again because no answer has come; nothing while too many are unanswered.
  std::optional<ClientRequest> Ask();
  // A request without an answer once more.
  std::optional<ClientRequest> Repeat();
  // Closes one thing that it knows of and has not asked to close.
  std::optional<ClientRequest> Close();

  void On(const Answer& answer);
  void On(const NumberedEvent& event);
  // The transport of a connector ended at the peer's side. Whether it is this client's.
  bool OnTransportEnd(ConnectionId transport);
  // Ends every transport, as the kernel does for a process that is gone.
  void EndTransports();

  // Nothing unanswered and nothing pending.
  [[nodiscard]] bool IsQuiet() const { return unanswered_.empty() && pending_.empty(); }
  [[nodiscard]] bool HasNothing() const;
  // For failures: what it still knows and waits for.
  [[nodiscard]] std::string Describe() const;

 private:
  enum class Phase : uint8_t { kIdle, kReplied, kRequested, kEstablished, kEnding, kDead };
  struct OwnObject {
    AdapterId adapter;
    bool closing = false;
  };
  struct OwnAdapter {
    std::string device;
    bool client_ends_connections = false;
    bool removed = false;
    bool closing = false;
  };
  struct OwnListener : OwnObject {
    bool asked = false;    // Listen was.
    SocketAddress target;  // That others were told.
  };
  struct OwnConnector : OwnObject {
    Phase phase = Phase::kIdle;
    RequestId busy;
    ConnectionId transport;
    bool peer_ended = false;
  };

  const Device& DeviceOf(AdapterId adapter) const;
  bool IsRemoved(AdapterId adapter) const;
  Request Choose();
  Request ChooseSensible();
  Request ChooseSenseless();
  Request ForConnector(ConnectorId id, OwnConnector& connector);
  Request ForListener(ListenerId id, const OwnListener& listener);
  Request ToConnect(ConnectorId id, const OwnConnector& connector);
  Request ToClose();
  Request EndOf(ConnectorId id, OwnConnector& connector);
  ClientRequest Send(Request request);
  // Whether what the request closes is its own, as far as it knows; true for other requests.
  bool Knows(const Request& closes) const;
  EventNumber Seen();
  void Conclude(RequestId id, const Request& request, const Outcome& outcome);
  void NoteSuccess(const Request& request, const Outcome& outcome);
  void NoteConnector(RequestId id, const Request& request, const Outcome& outcome);
  void NoteClosed(const Request& request);
  SocketAddress NoteTarget(AdapterId adapter, SocketAddress address);
  void EndTransport(OwnConnector& connector, bool gracefully);

  template <typename Kind, typename Object>
  Id<Kind> Any(const std::map<Id<Kind>, Object>& objects);
  SocketAddress AnyLocal(AdapterId adapter, bool wildcard);
  SocketAddress AnyTarget(AdapterId adapter);
  QpNumber AnyQp();
  ReadLimits AnyLimits();
  Bytes AnyData();

  Surroundings& world_;
  const std::map<std::string, Device>& devices_;
  FakeFabric& fabric_;
  EventNumber seen_;
  RequestId last_request_;
  std::map<RequestId, Request> unanswered_;
  std::map<RequestId, Request> pending_;
  std::set<RequestId> guesses_;  // Closes of what it did not know: their refusal says nothing of what it has since.
  std::map<AdapterId, OwnAdapter> adapters_;
  std::map<ListenerId, OwnListener> listeners_;
  std::map<SharedEndpointId, OwnObject> shared_endpoints_;
  std::map<ReservationId, OwnObject> reservations_;
  std::map<ConnectorId, OwnConnector> connectors_;
};

}  // namespace rdmabroker

#endif  // TESTS_SIMULATION_MODEL_CLIENT_H_
