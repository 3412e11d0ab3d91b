// SPDX-License-Identifier: Apache-2.0

#include "broker/control/life_log.h"

#include <utility>

#include "broker/core/overloaded.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/status.h"
#include "dataplane/provider_error.h"

namespace rdmabroker {
namespace {

// Most events are of no interest to most brokers, and their fields cost more than everything else here.
bool LogsTheUsual() { return CurrentLogLevel() <= LogLevel::kDebug; }

bool Succeeded(const Outcome& outcome) { return outcome.status == NdkStatus::kSuccess; }

}  // namespace

void LifeLog::GoOn() {
  for (const auto& [id, session] : records().sessions) {
    if (!session.ended) sessions_.try_emplace(id.value());
  }
  for (const auto& [id, connector] : records().connectors) {
    const auto known = sessions_.find(connector.session.value());
    if (known != sessions_.end()) Remember(known->second, connector);
  }
  for (const auto& [id, listener] : records().listeners) {
    const auto known = sessions_.find(listener.session.value());
    if (known != sessions_.end()) Remember(known->second, listener);
  }
}

void LifeLog::Remember(Session& known, const ConnectorRecord& connector) {
  Aim aim = Aim::kOther;
  switch (connector.state) {
    case ConnectorState::kBinding:
    case ConnectorState::kConnecting:
      aim = Aim::kConnect;
      break;
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      aim = Aim::kEstablish;
      break;
    case ConnectorState::kDisconnecting:
      aim = Aim::kDisconnect;
      [[fallthrough]];
    case ConnectorState::kEstablished:
      known.established[connector.id.value()] = PlaceOf(connector.id);
      break;
    default:
      break;
  }
  if (connector.pending) known.waiting[connector.pending.value()] = {aim, connector.id, {}};
}

void LifeLog::Remember(Session& known, const ListenerRecord& listener) {
  const ListenerId id = listener.id;
  if (listener.pending) known.waiting[listener.pending.value()] = {Aim::kListen, {}, id};
  if (listener.close_request) known.waiting[listener.close_request.value()] = {Aim::kClose, {}, id};
  if (listener.state != ListenerState::kListening || listener.closing) return;
  const DeviceId device = records().adapters.at(listener.adapter).device;
  known.listening[id.value()] = {.device = records().devices.at(device).device.name,
                                 .local = records().endpoints.at(listener.endpoint).address,
                                 .peer = {}};
}

void LifeLog::Opened(SessionId session) {
  const Identity& identity = records().sessions.at(session).identity;
  const bool is_new = sessions_.try_emplace(session.value()).second;
  const auto left_out = (is_new ? opened_ : resumed_).Pass(Loop::Now());
  if (!left_out) return;
  const LogField fields[] = {{"session", session.value()},
                             {"uid", identity.uid},
                             {"gid", identity.gid},
                             {"pid", identity.pid},
                             {"left_out", *left_out}};
  if (is_new) {
    LogInfo("session opened", fields);
  } else {
    LogInfo("session resumed", fields);
  }
}

void LifeLog::Refused(const Identity& identity, const Outcome& outcome) {
  if (const auto left_out = refused_.Pass(Loop::Now())) {
    LogWarning("session refused", {{"uid", identity.uid},
                                   {"gid", identity.gid},
                                   {"pid", identity.pid},
                                   {"status", StatusName(outcome.status)},
                                   {"cause", outcome.hint},
                                   {"left_out", *left_out}});
  }
}

void LifeLog::Away(SessionId session) {
  if (!sessions_.contains(session.value())) return;
  if (const auto left_out = away_.Pass(Loop::Now())) {
    LogInfo("session away", {{"session", session.value()}, {"left_out", *left_out}});
  }
}

void LifeLog::Ended(SessionId session, absl::string_view why) {
  auto known = sessions_.extract(session.value());
  if (!known.empty() && LogsTheUsual()) {
    while (!known.mapped().established.empty()) {
      Ended(session, known.mapped(), ConnectorId(known.mapped().established.begin()->first), {});
    }
    while (!known.mapped().listening.empty()) {
      Closed(session, known.mapped(), ListenerId(known.mapped().listening.begin()->first));
    }
  }
  if (const auto left_out = ended_.Pass(Loop::Now())) {
    LogInfo("session ended", {{"session", session.value()}, {"why", why}, {"left_out", *left_out}});
  }
}

void LifeLog::Saw(const Effect& effect, const ClientRequest* asked) {
  if (const auto* answer = std::get_if<Answer>(&effect)) return Answered(*asked, answer->outcome);
  if (const auto* event = std::get_if<NumberedEvent>(&effect)) return Happened(*event, asked);
  const auto* request = std::get_if<FabricRequest>(&effect);
  if (request == nullptr) return;
  if (const auto* rebind = std::get_if<FabricRebind>(request)) FollowedAddress(*rebind);
}

void LifeLog::FollowedAddress(const FabricRebind& request) {
  const auto endpoint = records().endpoints.find(request.endpoint);
  if (endpoint == records().endpoints.end() || endpoint->second.address.ip.IsAny()) return;
  const bool lost = request.ips.empty();
  const auto left_out = (lost ? lost_addresses_ : found_addresses_).Pass(Loop::Now());
  if (!left_out) return;
  const LogField fields[] = {{"endpoint", request.endpoint.value()},
                             {"uid", endpoint->second.uid},
                             {"device", records().devices.at(request.device).device.name},
                             {"local", endpoint->second.address.ToString()},
                             {"left_out", *left_out}};
  if (lost) {
    LogWarning("address of an endpoint gone", fields);
  } else {
    LogInfo("address of an endpoint there", fields);
  }
}

LifeLog::Deed LifeLog::DeedOf(const Request& request) {
  return std::visit(Overloaded{
                        [](const Connect& typed) {
                          return Deed{Aim::kConnect, typed.connector, {}};
                        },
                        [](const ConnectWithSharedEndpoint& typed) {
                          return Deed{Aim::kConnect, typed.connector, {}};
                        },
                        [](const CompleteConnect& typed) {
                          return Deed{Aim::kEstablish, typed.connector, {}};
                        },
                        [](const Accept& typed) {
                          return Deed{Aim::kEstablish, typed.connector, {}};
                        },
                        [](const Reject& typed) {
                          return Deed{Aim::kReject, typed.connector, {}};
                        },
                        [](const Disconnect& typed) {
                          return Deed{Aim::kDisconnect, typed.connector, {}};
                        },
                        [](const ReportConnectionEnd& typed) {
                          Deed deed{typed.graceful ? Aim::kReportEnd : Aim::kReportBreak, typed.connector, {}};
                          deed.provider_error = typed.provider_error;
                          return deed;
                        },
                        [](const CloseConnector& typed) {
                          return Deed{Aim::kClose, typed.connector, {}};
                        },
                        [](const Listen& typed) {
                          return Deed{Aim::kListen, {}, typed.listener};
                        },
                        [](const CloseListener& typed) {
                          return Deed{Aim::kClose, {}, typed.listener};
                        },
                        [](const auto&) { return Deed{}; },
                    },
                    request);
}

LifeLog::Place LifeLog::PlaceOf(ConnectorId connector) const {
  const auto found = records().connectors.find(connector);
  if (found == records().connectors.end()) return {};
  const DeviceId device = records().adapters.at(found->second.adapter).device;
  return {.device = records().devices.at(device).device.name, .local = found->second.local, .peer = found->second.peer};
}

bool LifeLog::Waits(RequestId request, const Deed& deed) const {
  if (deed.connector) {
    const auto found = records().connectors.find(deed.connector);
    return found != records().connectors.end() && found->second.pending == request;
  }
  const auto found = records().listeners.find(deed.listener);
  if (found == records().listeners.end()) return false;
  return found->second.pending == request || found->second.close_request == request;
}

void LifeLog::Answered(const ClientRequest& request, const Outcome& answer) {
  const auto known = sessions_.find(request.session.value());
  if (known == sessions_.end()) return;
  const Deed deed = DeedOf(request.request);
  const bool pending = answer.status == NdkStatus::kPending;
  // The connection of a connector that closes is over, though its close may wait.
  if (deed.aim == Aim::kClose && deed.connector && pending) {
    Ended(request.session, known->second, deed.connector, {});
  } else if (pending) {
    if (deed.aim != Aim::kOther && Waits(request.id, deed)) known->second.waiting[request.id.value()] = deed;
  } else if (Succeeded(answer)) {
    Concluded(request.session, known->second, deed, answer);
  } else if (LogsTheUsual()) {
    LogDebug("request refused", {{"session", request.session.value()},
                                 {"request", request.id.value()},
                                 {"status", StatusName(answer.status)},
                                 {"cause", answer.hint}});
  }
}

void LifeLog::Happened(const NumberedEvent& event, const ClientRequest* asked) {
  const auto found = sessions_.find(event.session.value());
  if (found == sessions_.end()) return;
  Session& known = found->second;
  if (const auto* outcome = std::get_if<OutcomeEvent>(&event.event)) {
    const auto waiting = known.waiting.extract(outcome->request.value());
    if (!waiting.empty()) {
      Concluded(event.session, known, waiting.mapped(), outcome->outcome);
    } else if (asked != nullptr && asked->session == event.session && asked->id == outcome->request) {
      // It has come before the answer that it comes after.
      Concluded(event.session, known, DeedOf(asked->request), outcome->outcome);
    }
  } else if (const auto* end = std::get_if<DisconnectEvent>(&event.event)) {
    Ended(event.session, known, end->connector, {.status = end->status, .provider_error = end->provider_error});
  } else if (const auto* asks = std::get_if<ConnectEvent>(&event.event)) {
    Requested(event.session, *asks);
  }
}

void LifeLog::Requested(SessionId session, const ConnectEvent& event) {
  if (LogsTheUsual()) {
    LogDebug("connector requested", {{"session", session.value()},
                                     {"listener", event.listener.value()},
                                     {"connector", event.connector.value()},
                                     {"local", event.data.local.ToString()},
                                     {"peer", event.data.peer.ToString()}});
  }
  const auto found = records().connectors.find(event.connector);
  if (found == records().connectors.end()) return;
  const Device& device = records().devices.at(records().adapters.at(found->second.adapter).device).device;
  if (!ExceedsPort(found->second, device)) return;
  if (const auto left_out = exceeded_ports_.Pass(Loop::Now())) {
    LogWarning("path mtu of a peer above that of the port", {{"session", session.value()},
                                                             {"connector", event.connector.value()},
                                                             {"device", device.name},
                                                             {"peer", event.data.peer.ToString()},
                                                             {"path_mtu", PathMtu(found->second)},
                                                             {"mtu", device.mtu},
                                                             {"left_out", *left_out}});
  }
}

void LifeLog::Concluded(SessionId session, Session& known, const Deed& deed, const Outcome& outcome) {
  switch (deed.aim) {
    case Aim::kOther:
      break;
    case Aim::kConnect:
      if (!Succeeded(outcome)) Failed(session, deed.connector, outcome);
      break;
    case Aim::kEstablish:
      if (Succeeded(outcome)) {
        Established(session, known, deed.connector);
      } else {
        Failed(session, deed.connector, outcome);
      }
      break;
    case Aim::kReject:
      LogDebug("connector rejected", {{"session", session.value()}, {"connector", deed.connector.value()}});
      break;
    case Aim::kDisconnect:
      Ended(session, known, deed.connector, outcome);
      break;
    case Aim::kReportEnd:
      Ended(session, known, deed.connector, {});
      break;
    case Aim::kReportBreak:
      Ended(session, known, deed.connector,
            {.status = NdkStatus::kConnectionAborted, .provider_error = deed.provider_error});
      break;
    case Aim::kClose:
      if (deed.listener) {
        Closed(session, known, deed.listener);
      } else {
        Ended(session, known, deed.connector, {});
      }
      break;
    case Aim::kListen:
      Listening(session, known, deed.listener, outcome);
      break;
  }
}

void LifeLog::Listening(SessionId session, Session& known, ListenerId listener, const Outcome& outcome) {
  const auto* bound = std::get_if<rdmabroker::Listening>(&outcome.payload);
  const auto record = records().listeners.find(listener);
  if (bound != nullptr && record != records().listeners.end()) {
    const DeviceId device = records().adapters.at(record->second.adapter).device;
    const Place& place = known.listening[listener.value()] = {
        .device = records().devices.at(device).device.name, .local = bound->address, .peer = {}};
    if (LogsTheUsual()) {
      LogDebug("listener listening", {{"session", session.value()},
                                      {"listener", listener.value()},
                                      {"device", place.device},
                                      {"local", place.local.ToString()}});
    }
  } else if (outcome.status == NdkStatus::kCancelled) {
    Closed(session, known, listener);
  } else if (const auto left_out = failed_listeners_.Pass(Loop::Now())) {
    LogInfo("listener failed", {{"session", session.value()},
                                {"listener", listener.value()},
                                {"status", StatusName(outcome.status)},
                                {"cause", outcome.hint},
                                {"left_out", *left_out}});
  }
}

void LifeLog::Closed(SessionId session, Session& known, ListenerId listener) {
  const auto place = known.listening.extract(listener.value());
  if (place.empty() || !LogsTheUsual()) return;
  LogDebug("listener closed", {{"session", session.value()},
                               {"listener", listener.value()},
                               {"device", place.mapped().device},
                               {"local", place.mapped().local.ToString()}});
}

void LifeLog::Established(SessionId session, Session& known, ConnectorId connector) {
  const Place& place = known.established[connector.value()] = PlaceOf(connector);
  if (!LogsTheUsual()) return;
  LogDebug("connector established", {{"session", session.value()},
                                     {"connector", connector.value()},
                                     {"device", place.device},
                                     {"local", place.local.ToString()},
                                     {"peer", place.peer.ToString()}});
}

void LifeLog::Failed(SessionId session, ConnectorId connector, const Outcome& outcome) {
  // Its own client has closed it.
  if (outcome.status == NdkStatus::kCancelled) {
    LogDebug("connector given up", {{"session", session.value()}, {"connector", connector.value()}});
    return;
  }
  const auto left_out = failed_connectors_.Pass(Loop::Now());
  if (!left_out) return;
  const Place place = PlaceOf(connector);
  LogInfo("connector failed", {{"session", session.value()},
                               {"connector", connector.value()},
                               {"device", place.device},
                               {"local", place.local.ToString()},
                               {"peer", place.peer.ToString()},
                               {"status", StatusName(outcome.status)},
                               {"provider_error", outcome.provider_error},
                               {"cause", outcome.hint},
                               {"left_out", *left_out}});
}

void LifeLog::Ended(SessionId session, Session& known, ConnectorId connector, const Outcome& how) {
  const auto ended = known.established.extract(connector.value());
  if (ended.empty()) return;
  const Place& place = ended.mapped();
  if (Succeeded(how) || how.status == NdkStatus::kCancelled) {
    if (!LogsTheUsual()) return;
    LogDebug("connector ended", {{"session", session.value()},
                                 {"connector", connector.value()},
                                 {"device", place.device},
                                 {"local", place.local.ToString()},
                                 {"peer", place.peer.ToString()}});
  } else if (const auto left_out = broken_connectors_.Pass(Loop::Now())) {
    LogInfo("connector broken", {{"session", session.value()},
                                 {"connector", connector.value()},
                                 {"device", place.device},
                                 {"local", place.local.ToString()},
                                 {"peer", place.peer.ToString()},
                                 {"status", StatusName(how.status)},
                                 {"provider_error", how.provider_error},
                                 {"cause", ConnectionEndText(how.status, how.provider_error)},
                                 {"left_out", *left_out}});
  }
}

}  // namespace rdmabroker
