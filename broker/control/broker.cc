// SPDX-License-Identifier: Apache-2.0

#include "broker/control/broker.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/core/overloaded.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Why a session ends about which nobody says anything.
constexpr absl::string_view kGraceOver = "the client did not return in time";

// A process that has changed its user may close and disconnect what its session has, and start nothing new.
std::optional<Outcome> RefuseChangedUser(const SessionRecord& session, const Caller& caller, const Request& request) {
  if (OnlyEnds(request) || std::holds_alternative<Disconnect>(request)) return std::nullopt;
  return Outcome{.status = NdkStatus::kAccessDenied,
                 .hint = absl::StrCat("session ", session.id.value(), ": of uid ", session.identity.uid,
                                      ", and its process has become uid ", caller.identity.uid,
                                      "; it can close and disconnect what it has, and open a session for more")};
}

absl::string_view WhyOf(SessionEndedBy by) {
  switch (by) {
    case SessionEndedBy::kAdministrator:
      return "an administrator has ended it";
    case SessionEndedBy::kGoodbye:
      return "the client has closed it";
    case SessionEndedBy::kClientGone:
      return "the client's process has ended";
  }
  return "";
}

}  // namespace

Broker::Broker(BrokerCore core, Loop& loop, CoreRunner::Commit commit, CoreRunner::Observer observer, Policy policy,
               AuditLevel audit)
    : runner_(
          std::move(core), loop, [this](const Event& cause, const Effect& effect) { Carry(cause, effect); },
          std::move(commit),
          [this, observer = std::move(observer)](Instant now, const Event& event, const Effects& effects) {
            if (observer) observer(now, event, effects);
            // Now, as the records are: of several events that are handled together the last one's are there later.
            const auto* const asked = std::get_if<ClientRequest>(&event);
            for (const Effect& effect : effects) life_.Saw(effect, asked);
          },
          [this](Event& event) { Prepare(event); }),
      gate_(std::move(policy), audit),
      processes_(loop, [this](SessionId session) { End(session, StreamEnding::kEnded, SessionEndedBy::kClientGone); }),
      why_(kGraceOver),
      life_(runner_.core()) {}

void Broker::Recover(std::vector<std::unique_ptr<Fabric>> fabrics) {
  const Records& records = core().records();
  if (!records.sessions.empty() || !records.endpoints.empty()) {
    LogInfo("going on where another process was", {{"sessions", records.sessions.size()},
                                                   {"endpoints", records.endpoints.size()},
                                                   {"connections", records.connections.size()}});
  }
  life_.GoOn();
  runner_.Recover(std::move(fabrics));
  for (const auto& [id, session] : records.sessions) {
    if (!session.ended) processes_.Watch(id, session.identity.pid);
  }
}

Broker::Opened Broker::Open(EventStream& stream, std::shared_ptr<const Caller> caller, const SessionSecret& secret,
                            AddressNews address_news) {
  // A broker that stops refuses all alike.
  if (!stopping_) {
    if (auto refusal = gate_.Open(*caller, core(), Loop::Now())) return *std::move(refusal);
  }
  stream.id_ = StreamId(++last_stream_);
  const OpenSession event{stream.id_, caller->identity, secret, address_news};
  return Attach(stream, std::move(caller), event);
}

Broker::Opened Broker::Resume(EventStream& stream, std::shared_ptr<const Caller> caller, SessionId session,
                              const SessionSecret& secret, EventNumber acknowledged, uint64_t lineage,
                              AddressNews address_news) {
  if (lineage != 0 && lineage != core().records().lineage) {
    return Outcome{.status = NdkStatus::kObjectNameNotFound,
                   .hint = absl::StrCat("session ", session.value(),
                                        ": was in records that this broker has lost; open a new one")};
  }
  stream.id_ = StreamId(++last_stream_);
  const ResumeSession event{stream.id_, session, caller->identity, secret, acknowledged, address_news};
  return Attach(stream, std::move(caller), event);
}

Broker::Opened Broker::Attach(EventStream& stream, std::shared_ptr<const Caller> caller, const Event& event) {
  if (stopping_) {
    return Outcome{.status = NdkStatus::kConnectionDisconnected,
                   .retryable = true,
                   .hint = "session: the broker is stopping; try again when it runs again"};
  }
  const Identity identity = caller->identity;
  const StreamId id = stream.id_;
  streams_[id.value()] = {.stream = &stream, .session = {}, .caller = std::move(caller)};
  runner_.Run(event);
  Opened opened = *std::exchange(opened_, std::nullopt);
  if (const auto* refusal = std::get_if<Outcome>(&opened)) {
    life_.Refused(identity, *refusal);
    streams_.erase(id.value());
  }
  return opened;
}

void Broker::CloseStream(EventStream& stream, StreamEnd end) {
  // The stream's earlier requests are handled before its end.
  runner_.HandleQueued();
  const StreamId id = stream.id_;
  const auto attached = streams_.find(id.value());
  if (attached == streams_.end()) return;
  const SessionId session = attached->second.session;
  streams_.erase(attached);
  if (end == StreamEnd::kBroker) {
    life_.Away(session);
    processes_.StopListening(session);
  }
  why_ = "the client has ended";
  runner_.Run(StreamLost{session, id, end});
  why_ = kGraceOver;
}

bool Broker::EndSession(SessionId session, StreamEnding ending) {
  const bool goodbye = ending == StreamEnding::kClosed;
  return End(session, ending, goodbye ? SessionEndedBy::kGoodbye : SessionEndedBy::kAdministrator);
}

bool Broker::End(SessionId session, StreamEnding ending, SessionEndedBy by) {
  const auto& sessions = core().records().sessions;
  const auto found = sessions.find(session);
  if (found == sessions.end() || found->second.ended) return false;
  ending_ = ending;
  why_ = WhyOf(by);
  runner_.Run(rdmabroker::EndSession{session, by});
  ending_ = StreamEnding::kEnded;
  why_ = kGraceOver;
  return true;
}

void Broker::SwitchDevice(DeviceId device, bool enabled) {
  runner_.Run(enabled ? Event(EnableDevice{device}) : Event(DisableDevice{device}));
}

bool Broker::Acknowledge(SessionId session, EventNumber acknowledged) {
  const auto& sessions = core().records().sessions;
  const auto found = sessions.find(session);
  if (found == sessions.end() || acknowledged > found->second.last_event) return false;
  runner_.Queue(AcknowledgeEvents{session, acknowledged});
  return true;
}

void Broker::Ask(const Caller& caller, ClientRequest request, Answerer answer) {
  const auto& sessions = core().records().sessions;
  const auto session = sessions.find(request.session);
  if (!request.session) {
    return answer({.status = NdkStatus::kInvalidParameter, .hint = "header.session_id: missing"});
  }
  const bool there = session != sessions.end() && !session->second.ended;
  const auto stream = there ? streams_.find(session->second.stream.value()) : streams_.end();
  const bool on_its_connection = stream != streams_.end() && stream->second.caller->connection == caller.connection;
  const bool changed_user = there && session->second.identity.uid != caller.identity.uid;
  // Another user's is as one that is not there.
  if (!there || (changed_user && !on_its_connection)) {
    return answer({.status = NdkStatus::kObjectNameNotFound,
                   .hint = absl::StrCat("header.session_id ", request.session.value(),
                                        ": no such session, or it has ended; open a new one")});
  }
  if (!on_its_connection) {
    return answer({.status = NdkStatus::kAccessDenied,
                   .hint = absl::StrCat("header.session_id ", request.session.value(),
                                        ": not a session whose stream is on this connection; open or resume one "
                                        "first")});
  }
  asked_.emplace_back(std::move(answer));
  runner_.Queue(std::move(request));
}

void Broker::Ask(EventStream& stream, ClientRequest request) {
  asked_.emplace_back(stream.id_);
  runner_.Queue(std::move(request));
}

void Broker::Answered(const ClientRequest& request, const Outcome& outcome) {
  const auto asked = std::move(asked_.front());
  asked_.pop_front();
  if (const auto* answer = std::get_if<Answerer>(&asked)) return (*answer)(outcome);
  const auto attached = streams_.find(std::get<StreamId>(asked).value());
  if (attached != streams_.end()) attached->second.stream->Answered(request, outcome);
}

void Broker::Prepare(Event& event) {
  auto* const request = std::get_if<ClientRequest>(&event);
  // A repeat costs nothing and is told what it was told before, whatever the policy says now.
  if (request == nullptr || !core().IsNew(*request)) return;
  const SessionRecord& session = core().records().sessions.at(request->session);
  const Caller& caller = *streams_.at(session.stream.value()).caller;
  request->refusal = gate_.Ask(caller, *request, core(), Loop::Now());
  if (session.identity.uid != caller.identity.uid && !request->refusal) {
    request->refusal = RefuseChangedUser(session, caller, request->request);
  }
  auto* const connect = std::get_if<Connect>(&request->request);
  if (connect != nullptr && connect->source.ip.IsAny() && !request->refusal) {
    connect->route = runner_.RouteTo(connect->connector, connect->destination);
  }
}

void Broker::StopStreams() {
  stopping_ = true;
  runner_.HandleQueued();
  std::vector<StreamId> ids;
  for (const auto& [id, attached] : streams_) ids.push_back(StreamId(id));
  for (const StreamId id : ids) {
    const SessionId session = streams_.at(id.value()).session;
    Detach(id, StreamEnding::kStopping);
    runner_.Run(StreamLost{session, id, StreamEnd::kBroker});
  }
}

void Broker::Detach(StreamId id, StreamEnding ending) {
  const auto attached = streams_.find(id.value());
  if (attached == streams_.end()) return;
  EventStream* stream = attached->second.stream;
  streams_.erase(attached);
  stream->End(ending);
}

void Broker::Carry(const Event& cause, const Effect& effect) {
  std::visit(Overloaded{
                 [&](const SessionOpened& opened) {
                   processes_.Watch(opened.session, core().records().sessions.at(opened.session).identity.pid);
                   streams_.at(opened.stream.value()).session = opened.session;
                   life_.Opened(opened.session);
                   opened_ = opened.session;
                 },
                 [&](const SessionRefused& refused) { opened_ = refused.outcome; },
                 [&](const Answer& answer) { Answered(std::get<ClientRequest>(cause), answer.outcome); },
                 [&](const NumberedEvent& event) {
                   if (const auto attached = streams_.find(event.stream.value()); attached != streams_.end()) {
                     attached->second.stream->EventsWait();
                   }
                 },
                 [&](const SessionEnded& ended) {
                   life_.Ended(ended.session, why_);
                   processes_.Forget(ended.session);
                   Detach(ended.stream, ending_);
                 },
                 [&](const StreamReplaced& replaced) { Detach(replaced.stream, StreamEnding::kEnded); },
                 [&](const FabricRequest&) {},
             },
             effect);
}

}  // namespace rdmabroker
