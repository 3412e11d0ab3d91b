// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/observer.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

// The object that a request uses and that is there before it; nothing for OpenAdapter.
std::optional<ObjectId> SubjectOf(const Request& request) {
  return std::visit(
      [](const auto& typed) -> std::optional<ObjectId> {
        if constexpr (requires { typed.connector; }) {
          return typed.connector;
        } else if constexpr (requires { typed.listener; }) {
          return typed.listener;
        } else if constexpr (requires { typed.adapter; }) {
          return typed.adapter;
        } else if constexpr (requires { typed.shared_endpoint; }) {
          return typed.shared_endpoint;
        } else if constexpr (requires { typed.device; }) {
          return std::nullopt;
        } else {
          return typed.reservation;
        }
      },
      request);
}

bool IsClose(const Request& request) {
  return std::holds_alternative<CloseAdapter>(request) || std::holds_alternative<CloseListener>(request) ||
         std::holds_alternative<CloseSharedEndpoint>(request) || std::holds_alternative<ReleasePort>(request) ||
         std::holds_alternative<CloseConnector>(request);
}

// An attempt to connect goes on by itself once it is adopted.
bool AwaitsAnswer(Observer::Stage stage) {
  using enum Observer::Stage;
  return stage == kCompleting || stage == kAccepting || stage == kDisconnecting || stage == kGivenUp;
}

}  // namespace

absl::Status Observer::Observe(const Event& event, const Effects& effects, const Records& records) {
  status_ = absl::OkStatus();
  answers_due_ = 0;
  repeat_of_.reset();
  new_request_ = false;
  Before(event);
  for (const Effect& effect : effects) {
    std::visit([&](const auto& typed) { See(event, typed); }, effect);
  }
  Require(answers_due_ == 0, "no answer in its own turn");
  const bool acts = new_request_ || !std::holds_alternative<ClientRequest>(event);
  Require(acts || effects.size() == 1, "a repeat, or a request that cannot be, has effects");
  if (!status_.ok()) return status_;
  AgreeOnSessions(records);
  AgreeOnObjects(records);
  AgreeOnFabric(records);
  return status_;
}

const std::map<RequestId, Observer::GivenAnswer>& Observer::answers(SessionId session) const {
  return sessions_.at(session).answers;
}

void Observer::Before(const Event& event) {
  if (std::holds_alternative<OpenSession>(event) || std::holds_alternative<ResumeSession>(event)) answers_due_ = 1;
  if (const auto* request = std::get_if<ClientRequest>(&event)) BeforeRequest(*request);
  if (const auto* report = std::get_if<FabricReport>(&event)) BeforeReport(*report);
  if (const auto* seen = std::get_if<AcknowledgeEvents>(&event)) {
    const auto session = sessions_.find(seen->session);
    if (session != sessions_.end()) Acknowledge(session->second, seen->acknowledged);
  }
  if (const auto* lost = std::get_if<StreamLost>(&event)) {
    const auto session = sessions_.find(lost->session);
    if (session != sessions_.end() && session->second.stream == lost->stream) session->second.stream = StreamId();
  }
  if (std::holds_alternative<Recover>(event)) BeforeRecovery();
}

void Observer::BeforeRecovery() {
  for (auto& [id, session] : sessions_) session.stream = StreamId();
  adopted_endpoints_.clear();
  adopted_connections_.clear();
  for (const auto& [id, there] : devices_) recovering_.insert(id);
  // Nobody binds anything any more on a device that is gone.
  const auto is_gone = [&](const SeenEndpoint& endpoint) { return !devices_[endpoint.device]; };
  std::erase_if(endpoints_, [&](const auto& entry) {
    return is_gone(entry.second) && entry.second.state == EndpointState::kBinding;
  });
  for (auto& [id, endpoint] : endpoints_) {
    if (!is_gone(endpoint) || endpoint.state != EndpointState::kRepurposing) continue;
    endpoint.state = EndpointState::kBound;
    endpoint.use = endpoint.before;
  }
  unasked_endpoints_.clear();
  unasked_connections_.clear();
  for (const auto& [id, endpoint] : endpoints_) {
    if (endpoint.state != EndpointState::kBound) unasked_endpoints_.insert(id);
  }
  for (const auto& [id, connection] : connections_) {
    if (AwaitsAnswer(connection.stage)) unasked_connections_.insert(id);
  }
}

void Observer::BeforeRequest(const ClientRequest& event) {
  answers_due_ = 1;
  const auto found = sessions_.find(event.session);
  if (found == sessions_.end()) return;
  SeenSession& session = found->second;
  if (!event.id) return;
  if (const auto given = session.answers.find(event.id); given != session.answers.end()) {
    if (given->second.request == event.request) repeat_of_ = given->second.outcome;
    return;
  }
  const uint64_t newest = session.newest_request.value();
  if (newest >= answers_kept_ && newest - answers_kept_ >= event.id.value()) return;
  new_request_ = true;
  Acknowledge(session, event.acknowledged);
  session.owed.emplace(event.id, event.request);
}

void Observer::Acknowledge(SeenSession& session, EventNumber through) {
  if (through > session.last_event) return;
  while (session.acknowledged < through) {
    session.events.pop_front();
    session.acknowledged = EventNumber(session.acknowledged.value() + 1);
  }
}

void Observer::See(const Event& event, const SessionOpened& effect) {
  Require(answers_due_-- == 1, "stream ", effect.stream.value(), ": answered twice, or without asking");
  if (const auto* opens = std::get_if<OpenSession>(&event)) {
    Require(opens->stream == effect.stream, "another stream's session is opened");
    Require(had_sessions_.insert(effect.session).second, "session ", effect.session.value(), ": was there before");
    sessions_[effect.session].stream = effect.stream;
    sessions_[effect.session].address_news = opens->address_news;
  } else if (const auto* resumes = std::get_if<ResumeSession>(&event)) {
    const auto session = sessions_.find(effect.session);
    const bool same = session != sessions_.end() && resumes->session == effect.session;
    Require(same && resumes->stream == effect.stream, "another session than the asked one is resumed");
    if (!same) return;
    Require(!session->second.stream, "session ", effect.session.value(), ": has two streams");
    session->second.stream = effect.stream;
    session->second.address_news = resumes->address_news;
    Acknowledge(session->second, resumes->acknowledged);
  }
}

void Observer::See(const Event&, const SessionRefused& effect) {
  Require(answers_due_-- == 1, "stream ", effect.stream.value(), ": answered twice, or without asking");
  Require(!IsSuccess(effect.outcome.status), "stream ", effect.stream.value(), ": refused with success");
}

void Observer::See(const Event& event, const Answer& effect) {
  const auto* asked = std::get_if<ClientRequest>(&event);
  const bool due = asked != nullptr && answers_due_-- == 1;
  Require(due && asked->session == effect.session && asked->id == effect.id, "request ", effect.id.value(),
          ": answered twice, or without asking");
  if (!due) return;
  if (repeat_of_) return Require(effect.outcome == *repeat_of_, "request ", effect.id.value(), ": a repeat differs");
  if (!new_request_) {
    return Require(!IsSuccess(effect.outcome.status), "request ", effect.id.value(), ": cannot be and succeeds");
  }
  const auto found = sessions_.find(effect.session);
  if (found == sessions_.end()) return Require(false, "session ", effect.session.value(), ": ended by its request");
  SeenSession& session = found->second;
  session.answers[effect.id] = {asked->request, effect.outcome};
  session.newest_request = std::max(session.newest_request, effect.id);
  std::erase_if(session.answers, [&](const auto& given) {
    return session.newest_request.value() - given.first.value() >= answers_kept_;
  });
  if (effect.outcome.status == NdkStatus::kPending) return Begin(asked->request);
  Require(session.owed.erase(effect.id) == 1, "request ", effect.id.value(), ": an answer and an outcome");
  Conclude(effect.session, asked->request, effect.outcome);
}

void Observer::See(const Event&, const NumberedEvent& effect) {
  const auto found = sessions_.find(effect.session);
  if (found == sessions_.end()) return Require(false, "session ", effect.session.value(), ": news after its end");
  SeenSession& session = found->second;
  Require(effect.stream == session.stream, "session ", effect.session.value(), ": news on another stream");
  Require(effect.number.value() == session.last_event.value() + 1, "session ", effect.session.value(), ": event ",
          effect.number.value(), " follows ", session.last_event.value());
  SeeNew(effect.session, effect.event);
}

void Observer::See(const Event&, const SessionEnded& effect) {
  const auto found = sessions_.find(effect.session);
  if (found == sessions_.end()) return Require(false, "session ", effect.session.value(), ": ends twice");
  Require(found->second.stream == effect.stream, "session ", effect.session.value(), ": ends on another stream");
  sessions_.erase(found);
  std::erase_if(objects_, [&](const auto& object) { return object.second.session == effect.session; });
}

void Observer::See(const Event& event, const StreamReplaced& effect) {
  const auto* resumes = std::get_if<ResumeSession>(&event);
  const auto session = resumes == nullptr ? sessions_.end() : sessions_.find(resumes->session);
  const bool known = session != sessions_.end() && session->second.stream == effect.stream;
  Require(known, "stream ", effect.stream.value(), ": replaced, but nobody's");
  if (known) session->second.stream = StreamId();
}

void Observer::SeeNew(SessionId id, const SessionEvent& news) {
  SeenSession& session = sessions_.at(id);
  session.last_event = EventNumber(session.last_event.value() + 1);
  session.events.push_back(news);
  std::visit([&](const auto& typed) { SeeNews(id, typed); }, news);
}

void Observer::SeeNews(SessionId id, const OutcomeEvent& news) {
  SeenSession& session = sessions_.at(id);
  const auto owed = session.owed.find(news.request);
  if (owed == session.owed.end()) {
    return Require(false, "request ", news.request.value(), ": an outcome that nobody waits for");
  }
  const Request request = owed->second;
  session.owed.erase(owed);
  Require(news.outcome.status != NdkStatus::kPending, "request ", news.request.value(), ": its outcome is PENDING");
  const std::optional<ObjectId> subject = SubjectOf(request);
  Require(!subject || objects_.contains(*subject), "request ", news.request.value(),
          ": an outcome for a closed object");
  Conclude(id, request, news.outcome);
}

void Observer::SeeNews(SessionId session, const ConnectEvent& news) {
  const auto listener = objects_.find(news.listener);
  if (listener == objects_.end()) return Require(false, "listener ", news.listener.value(), ": delivers, but is gone");
  const SeenObject& object = listener->second;
  Require(object.session == session, "listener ", news.listener.value(), ": delivers to another session");
  Require(!object.closing && !object.paused, "listener ", news.listener.value(), ": delivers while closing or paused");
  std::set<ObjectId> antecedents = object.antecedents;
  antecedents.insert(news.listener);
  Appear(session, news.connector, std::move(antecedents));
}

void Observer::SeeNews(SessionId session, const DisconnectEvent& news) {
  const auto connector = objects_.find(news.connector);
  const bool told = connector != objects_.end() && connector->second.session == session && !connector->second.closing &&
                    connector->second.told == Told::kEstablished;
  Require(told, "connector ", news.connector.value(), ": disconnected, but not known as connected");
  if (told) connector->second.told = Told::kDisconnected;
}

void Observer::SeeNews(SessionId session, const AdapterRemovedEvent& news) {
  const auto adapter = objects_.find(news.adapter);
  Require(adapter != objects_.end() && adapter->second.session == session, "adapter ", news.adapter.value(),
          ": removed, but not the client's");
}

void Observer::SeeNews(SessionId session, const AdapterDisabledEvent& news) {
  const auto adapter = objects_.find(news.adapter);
  const bool open = adapter != objects_.end() && adapter->second.session == session && !adapter->second.closing;
  Require(open, "adapter ", news.adapter.value(), ": disabled, but not open");
  if (open)
    Require(!std::exchange(adapter->second.disabled, true), "adapter ", news.adapter.value(), ": disabled twice");
}

void Observer::SeeNews(SessionId session, const AddressEvent& news) {
  const ObjectId id = ObjectOf(news.holder);
  const auto object = objects_.find(id);
  const bool open = object != objects_.end() && object->second.session == session && !object->second.closing;
  Require(open, NameOf(id), ": has news of its address, but is not open");
  const bool listens = std::holds_alternative<ListenerId>(id);
  const AddressNews wanted = sessions_.at(session).address_news;
  Require(wanted >= (listens ? AddressNews::kOfListeners : AddressNews::kOfAll), NameOf(id),
          ": an event that its client has not asked for");
}

void Observer::Begin(const Request& request) {
  const std::optional<ObjectId> subject = SubjectOf(request);
  const auto object = subject ? objects_.find(*subject) : objects_.end();
  if (object == objects_.end()) return;
  if (IsClose(request)) object->second.closing = true;
  if (std::holds_alternative<Disconnect>(request)) object->second.told = Told::kDisconnected;
  if (const auto* through = std::get_if<ConnectWithSharedEndpoint>(&request)) {
    std::erase_if(object->second.antecedents, [](const ObjectId& id) { return id.index() == 2; });
    object->second.antecedents.insert(through->shared_endpoint);
  }
  if (std::holds_alternative<Connect>(request)) {
    std::erase_if(object->second.antecedents, [](const ObjectId& id) { return id.index() == 2; });
  }
}

void Observer::Conclude(SessionId session, const Request& request, const Outcome& outcome) {
  const bool success = outcome.status == NdkStatus::kSuccess;
  const std::optional<ObjectId> subject = SubjectOf(request);
  if (const auto* listen = std::get_if<Listen>(&request)) TakeOver(listen->reservation, outcome);
  if (const auto* create = std::get_if<CreateSharedEndpoint>(&request)) TakeOver(create->reservation, outcome);
  if (!success) return;
  if (IsClose(request)) return Vanish(*subject);
  if (const auto* opened = std::get_if<AdapterOpened>(&outcome.payload)) Appear(session, opened->adapter, {});
  if (const auto* made = std::get_if<ListenerCreated>(&outcome.payload)) Appear(session, made->listener, {*subject});
  if (const auto* made = std::get_if<ConnectorCreated>(&outcome.payload)) Appear(session, made->connector, {*subject});
  if (const auto* reserved = std::get_if<PortReserved>(&outcome.payload)) {
    Appear(session, reserved->reservation, {*subject});
  }
  if (const auto* made = std::get_if<SharedEndpointCreated>(&outcome.payload)) {
    Appear(session, made->shared_endpoint, {*subject});
  }
  const auto object = subject ? objects_.find(*subject) : objects_.end();
  if (object == objects_.end()) return;
  if (const auto* control = std::get_if<ControlConnectEvents>(&request)) object->second.paused = control->pause;
  if (std::holds_alternative<Accept>(request) || std::holds_alternative<CompleteConnect>(request)) {
    Require(object->second.told == Told::kNothing, NameOf(*subject), ": established twice");
    object->second.told = Told::kEstablished;
  }
  if (std::holds_alternative<Disconnect>(request) || std::holds_alternative<ReportConnectionEnd>(request)) {
    object->second.told = Told::kDisconnected;
  }
}

void Observer::Appear(SessionId session, const ObjectId& object, std::set<ObjectId> antecedents) {
  // In any order: of two objects whose creation is pending, the younger may be there first.
  Require(appeared_.insert(object).second, NameOf(object), ": is an earlier one's id");
  objects_[object] = {.session = session, .antecedents = std::move(antecedents)};
}

void Observer::Vanish(const ObjectId& object) {
  Require(objects_.erase(object) == 1, NameOf(object), ": closed, but not the client's");
  for (const auto& [other, seen] : objects_) {
    Require(!seen.antecedents.contains(object), NameOf(object), ": closed before its successor ", NameOf(other));
  }
}

void Observer::TakeOver(ReservationId reservation, const Outcome& outcome) {
  if (!reservation) return;
  if (outcome.status == NdkStatus::kSuccess) return Vanish(reservation);
  const auto object = objects_.find(reservation);
  if (object != objects_.end() && outcome.status == NdkStatus::kCancelled) object->second.may_vanish = true;
}

}  // namespace rdmabroker
