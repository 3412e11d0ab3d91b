// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_OBSERVER_H_
#define BROKER_CORE_TESTING_OBSERVER_H_

#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/core/limits.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"

namespace rdmabroker {

// Watches a core from outside, as its clients and its fabrics see it, and says which of the promises made to them was
// broken first. It knows the core's messages and nothing of its insides:
//
//   clients   each request has exactly one Answer in its own turn, each PENDING exactly one OutcomeEvent; a repeat has
//             the first one's answer and no effect; event numbers rise by one; a returning client gets exactly what
//             it has not acknowledged; nothing is said of an object that is not the client's, or no more; an object's
//             close ends after its successors'; no DisconnectEvent before the connection's establishment was told, nor
//             twice; no ConnectEvent of a listener that is paused or being closed
//   fabrics   the contract of fabric_messages.h, for requests: an endpoint or connection is named only while it is
//             there and only in a state that allows the request; a connection is given up exactly once; a device that
//             is gone is asked for nothing but to give back; after Recover each is adopted once, as it was, and what
//             had no answer, and nothing else, is asked for again
class Observer {
 public:
  explicit Observer(const Limits& limits) : answers_kept_(limits.answers_kept) {}

  // What the core made of `event`, and its records after it: they must agree with what it has let be known, that is,
  // know the same live objects, outstanding requests, events, endpoints and connections. INTERNAL, naming the promise.
  absl::Status Observe(const Event& event, const Effects& effects, const Records& records);

  // How far a connection has come, by what the fabric has reported and was asked.
  enum class Stage : uint8_t {
    kConnecting,
    kReplied,
    kCompleting,
    kRequested,
    kAccepting,
    kEstablished,
    kDisconnecting,
    kOver,  // Failed or disconnected; to be given up.
    kGivenUp,
  };
  struct SeenConnection {
    DeviceId device;
    EndpointId endpoint;
    Stage stage = Stage::kConnecting;
  };
  struct SeenEndpoint {
    DeviceId device;
    EndpointUse use = EndpointUse::kListener;
    EndpointState state = EndpointState::kBinding;
    EndpointUse before = EndpointUse::kListener;  // What a failed FabricRepurpose leaves.
    bool at_no_address = false;
  };
  enum class Told : uint8_t { kNothing, kEstablished, kDisconnected };
  struct SeenObject {
    SessionId session;
    std::set<ObjectId> antecedents;
    bool closing = false;
    bool paused = false;
    bool disabled = false;    // An adapter whose client has been told so.
    bool may_vanish = false;  // A reservation whose taker's Listen or CreateSharedEndpoint was cancelled.
    Told told = Told::kNothing;
  };

  const std::map<EndpointId, SeenEndpoint>& endpoints() const { return endpoints_; }
  const std::map<ConnectionId, SeenConnection>& connections() const { return connections_; }
  const std::map<ObjectId, SeenObject>& objects() const { return objects_; }

  // What a client that repeats a request must be answered.
  struct GivenAnswer {
    Request request;
    Outcome outcome;
  };
  const std::map<RequestId, GivenAnswer>& answers(SessionId session) const;

 private:
  struct SeenSession {
    StreamId stream;
    AddressNews address_news = AddressNews::kNone;
    EventNumber last_event;
    EventNumber acknowledged;
    std::deque<SessionEvent> events;
    std::map<RequestId, GivenAnswer> answers;
    RequestId newest_request;
    std::map<RequestId, Request> owed;  // Answered PENDING, or to be answered in this turn.
  };

  template <typename... Parts>
  void Require(bool holds, const Parts&... parts) {
    if (!holds && status_.ok()) status_ = absl::InternalError(absl::StrCat(parts...));
  }

  void Before(const Event& event);
  void BeforeRequest(const ClientRequest& event);
  void BeforeReport(const FabricReport& report);
  void BeforeRecovery();
  void Acknowledge(SeenSession& session, EventNumber through);
  void Advance(ConnectionId connection, std::initializer_list<Stage> from, Stage to);

  void See(const Event& event, const SessionOpened& effect);
  void See(const Event& event, const SessionRefused& effect);
  void See(const Event& event, const Answer& effect);
  void See(const Event& event, const NumberedEvent& effect);
  void See(const Event& event, const SessionEnded& effect);
  void See(const Event& event, const StreamReplaced& effect);
  void See(const Event& event, const FabricRequest& effect);

  void SeeNew(SessionId session, const SessionEvent& news);
  void SeeNews(SessionId session, const OutcomeEvent& news);
  void SeeNews(SessionId session, const ConnectEvent& news);
  void SeeNews(SessionId session, const DisconnectEvent& news);
  void SeeNews(SessionId session, const AdapterRemovedEvent& news);
  void SeeNews(SessionId session, const AdapterDisabledEvent& news);
  void SeeNews(SessionId session, const AddressEvent& news);

  // A request has come to its end with `outcome`, in its answer or later.
  void Conclude(SessionId session, const Request& request, const Outcome& outcome);
  // A request was answered PENDING.
  void Begin(const Request& request);
  void Appear(SessionId session, const ObjectId& object, std::set<ObjectId> antecedents);
  void Vanish(const ObjectId& object);
  void TakeOver(ReservationId reservation, const Outcome& outcome);

  void Ask(const FabricBind& request);
  void Ask(const FabricRepurpose& request);
  void Ask(const FabricRebind& request);
  void Ask(const FabricUnbind& request);
  void Ask(const FabricConnect& request);
  void Ask(const FabricComplete& request);
  void Ask(const FabricAccept& request);
  void Ask(const FabricReject& request);
  void Ask(const FabricRefuse& request);
  void Ask(const FabricDisconnect& request);
  void Ask(const FabricRelease& request);
  void Ask(const FabricAdoptEndpoint& request);
  void Ask(const FabricAdoptConnection& request);
  void Ask(const FabricAdopted& request);
  bool IsAskedAgain(EndpointId endpoint, EndpointState state) const;
  bool IsAskedAgain(ConnectionId connection, Stage stage) const;
  SeenConnection* Find(ConnectionId connection, DeviceId device);
  SeenEndpoint* Find(EndpointId endpoint, DeviceId device);
  void RequireDevice(DeviceId device, bool to_give_back);

  void AgreeOnSessions(const Records& records);
  void AgreeOnObjects(const Records& records);
  void AgreeOnFabric(const Records& records);

  uint32_t answers_kept_;
  absl::Status status_;
  std::map<SessionId, SeenSession> sessions_;
  std::set<SessionId> had_sessions_;
  std::map<ObjectId, SeenObject> objects_;
  std::set<ObjectId> appeared_;       // Every object that there ever was.
  std::map<DeviceId, bool> devices_;  // Whether it is there.
  std::set<DeviceId> clients_end_;    // Devices whose clients end connections.
  std::map<EndpointId, SeenEndpoint> endpoints_;
  std::map<ConnectionId, SeenConnection> connections_;
  EndpointId newest_endpoint_;
  ConnectionId newest_connection_;  // Of those that the core started.
  // From Recover to FabricAdopted.
  std::set<DeviceId> recovering_;
  std::set<EndpointId> adopted_endpoints_;
  std::set<ConnectionId> adopted_connections_;
  // What waits for the fabric's answer, and has not been asked for again yet.
  std::set<EndpointId> unasked_endpoints_;
  std::set<ConnectionId> unasked_connections_;

  // Of the event that is being observed.
  uint32_t answers_due_ = 0;  // To a client's request, or to a stream.
  std::optional<Outcome> repeat_of_;
  bool new_request_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_OBSERVER_H_
