// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/sentence.h"
#include "broker/core/testing/text.h"
#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

SocketAddress OptionalAddress(Sentence& words, std::string_view after) {
  Sentence ahead = words;
  return ahead.Take(after) ? words.Address(after) : SocketAddress();
}

ReservationId OptionalReservation(Sentence& words) {
  return ReservationId(words.OptionalNumber("from reservation").value_or(0));
}

Request ParseConnect(Sentence& words) {
  const ConnectorId connector(words.Number());
  const QpNumber qp{static_cast<uint32_t>(words.Number("with QP"))};
  if (const auto shared = words.OptionalNumber("through shared endpoint")) {
    ConnectWithSharedEndpoint request{connector, qp, SharedEndpointId(*shared), words.Address("to"), {}, {}};
    request.limits = words.Reads("reads");
    request.options = words.OptionalOptions();
    request.private_data = words.OptionalData();
    return request;
  }
  Connect request{connector, qp, words.Address("from"), {}, {}, {}};
  if (words.Take("by route")) request.route = {NdkStatus::kSuccess, words.Ip()};
  request.destination = words.Address("to");
  request.limits = words.Reads("reads");
  request.options = words.OptionalOptions();
  request.private_data = words.OptionalData();
  return request;
}

Request ParseClose(Sentence& words) {
  if (const auto id = words.OptionalNumber("adapter")) return CloseAdapter{AdapterId(*id)};
  if (const auto id = words.OptionalNumber("listener")) return CloseListener{ListenerId(*id)};
  if (const auto id = words.OptionalNumber("shared endpoint")) return CloseSharedEndpoint{SharedEndpointId(*id)};
  return CloseConnector{ConnectorId(words.Number("connector"))};
}

Request ParseCreate(Sentence& words) {
  if (words.Take("listener")) return CreateListener{AdapterId(words.Number("on adapter"))};
  if (words.Take("connector")) return CreateConnector{AdapterId(words.Number("on adapter"))};
  words.Expect("shared endpoint");
  CreateSharedEndpoint request;
  request.adapter = AdapterId(words.Number("on adapter"));
  request.address = OptionalAddress(words, "at");
  request.reservation = OptionalReservation(words);
  return request;
}

Request ParseOpen(Sentence& words) {
  OpenAdapter request{words.Word(), kNdkVersion};
  if (!words.Take("version")) return request;
  const std::string version = words.Word();
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(version.c_str(), "%u.%u", &major, &minor) != 2) words.Expect("a version such as 2.1");
  request.version = {static_cast<uint16_t>(major), static_cast<uint16_t>(minor)};
  return request;
}

Request ParseRequest(Sentence& words) {
  if (words.Take("open adapter")) return ParseOpen(words);
  if (words.Take("close")) return ParseClose(words);
  if (words.Take("create")) return ParseCreate(words);
  if (words.Take("listen with listener")) {
    Listen request{ListenerId(words.Number()), OptionalAddress(words, "at"), {}};
    request.reservation = OptionalReservation(words);
    request.await_address = words.Take("once it is there");
    request.any_adapter = words.Take("on any adapter");
    return request;
  }
  if (words.Take("pause")) return ControlConnectEvents{ListenerId(words.Number("listener")), true};
  if (words.Take("unpause")) return ControlConnectEvents{ListenerId(words.Number("listener")), false};
  if (words.Take("reserve port on adapter")) {
    const AdapterId adapter(words.Number());
    return ReservePort{adapter, words.Address("at")};
  }
  if (words.Take("release reservation")) return ReleasePort{ReservationId(words.Number())};
  if (words.Take("connect connector")) return ParseConnect(words);
  if (words.Take("complete connector")) return CompleteConnect{ConnectorId(words.Number())};
  if (words.Take("accept connector")) {
    Accept request{ConnectorId(words.Number()), {}, {}, {}};
    request.qp.value = static_cast<uint32_t>(words.Number("with QP"));
    request.limits = words.Reads("reads");
    request.options = words.OptionalOptions();
    request.private_data = words.OptionalData();
    return request;
  }
  if (words.Take("reject connector")) {
    const ConnectorId connector(words.Number());
    return Reject{connector, words.OptionalData()};
  }
  if (words.Take("disconnect connector")) return Disconnect{ConnectorId(words.Number())};
  if (words.Take("get data of connector")) return GetConnectionData{ConnectorId(words.Number())};
  ReportConnectionEnd request{ConnectorId(words.Number("report connector")), words.Take("ended"), 0};
  if (!request.graceful) words.Expect("broke");
  request.provider_error = static_cast<uint32_t>(words.OptionalNumber("error").value_or(0));
  return request;
}

Identity ParseIdentity(Sentence& words, SessionSecret& secret) {
  Identity identity{1000, 1000, 1};
  identity.uid = static_cast<uint32_t>(words.OptionalNumber("uid").value_or(identity.uid));
  identity.pid = static_cast<int32_t>(words.OptionalNumber("pid").value_or(identity.pid));
  secret = SecretOf<SessionSecret>(static_cast<uint8_t>(words.OptionalNumber("secret").value_or(1)));
  return identity;
}

AddressNews ParseAddressNews(Sentence& words) {
  if (words.Take("hears of addresses")) return AddressNews::kOfAll;
  return words.Take("hears of listeners' addresses") ? AddressNews::kOfListeners : AddressNews::kNone;
}

Event ParseStream(Sentence& words) {
  const StreamId stream(words.Number());
  if (words.Take("opens a session")) {
    OpenSession event{stream, {}, {}};
    event.identity = ParseIdentity(words, event.secret);
    event.address_news = ParseAddressNews(words);
    return event;
  }
  ResumeSession event{stream, SessionId(words.Number("resumes session")), {}, {}, {}};
  event.acknowledged = EventNumber(words.Number("seen"));
  event.identity = ParseIdentity(words, event.secret);
  event.address_news = ParseAddressNews(words);
  return event;
}

template <typename Value, typename Key>
Value DefaultOf(const std::map<Key, Value>& defaults, const Key& key, Value otherwise) {
  const auto found = defaults.find(key);
  return found == defaults.end() ? otherwise : found->second;
}

Event ParseSession(Sentence& words, const ClientDefaults& defaults) {
  const SessionId session(words.Number());
  if (words.Take("loses its stream")) return StreamLost{session, StreamId(words.Number()), StreamEnd::kClient};
  if (words.Take("is cut from its stream")) return StreamLost{session, StreamId(words.Number()), StreamEnd::kBroker};
  if (words.Take("is ended")) return EndSession{session};
  if (words.Take("has seen")) return AcknowledgeEvents{session, EventNumber(words.Number())};
  ClientRequest event;
  event.session = session;
  const auto id = words.OptionalNumber("request");
  event.id = id ? RequestId(*id) : DefaultOf(defaults.next_request, session, RequestId(1));
  const auto seen = words.OptionalNumber("seen");
  event.acknowledged = seen ? EventNumber(*seen) : DefaultOf(defaults.seen, session, EventNumber());
  if (words.Take("refused")) {
    event.refusal = Outcome{.status = words.Status()};
    event.refusal->hint = words.OptionalText("since");
    event.refusal->retryable = words.Take("for now");
  }
  event.request = ParseRequest(words);
  return event;
}

Event ParseDevice(Sentence& words) {
  const DeviceId id(words.Number());
  if (words.Take("is disabled")) return DisableDevice{id};
  if (words.Take("is enabled")) return EnableDevice{id};
  if (words.Take("is removed")) return DeviceRemoved{id};
  words.Expect("is");
  Device device;
  device.id = id;
  device.name = words.Word();
  device.network_namespace = words.OptionalNumber("in namespace").value_or(1);
  if (words.Take("with TCP ports")) device.port_space = PortSpace::kTcp;
  const ReadLimits reads = words.Reads("reads");
  device.info.max_inbound_read_limit = reads.inbound;
  device.info.max_outbound_read_limit = reads.outbound;
  // Written as read limits are: Connect's, then Accept's and Reject's.
  const ReadLimits data = words.Reads("data");
  device.info.max_caller_data = data.inbound;
  device.info.max_callee_data = data.outbound;
  if (words.Take("loopback")) device.info.adapter_flags = kLoopbackConnectionsSupported;
  device.client_ends_connections = words.Take("clients end connections");
  device.keeps_qps_until_released = words.Take("keeps QPs until released");
  device.unusable_reason = words.OptionalText("unusable");
  words.Expect("at");
  while (!words.AtEnd() && words.status().code() == absl::StatusCode::kInvalidArgument) {
    const IpAddress ip = words.Ip();
    if (ip == IpAddress()) break;
    device.addresses.push_back(ip);
  }
  return DeviceChanged{device};
}

FabricReport ParseEndpoint(Sentence& words) {
  const EndpointId id(words.Number());
  if (words.Take("is bound")) return FabricBound{id};
  if (words.Take("is unbound")) return FabricUnbound{id};
  words.Expect("is not bound");
  FabricBindFailed report{id, words.Status(), 0};
  report.provider_error = static_cast<uint32_t>(words.OptionalNumber("error").value_or(0));
  return report;
}

// "two-way, QP steps 3".
void ParseSteps(Sentence& words, bool& three_way, std::vector<QpAttributes>& steps) {
  three_way = !words.Take("two-way");
  steps.resize(std::min<uint64_t>(words.OptionalNumber("QP steps").value_or(0), 3));
}

// A status, and what may come with it.
template <typename Report>
Report ParseFailure(Sentence& words, ConnectionId id) {
  Report report;
  report.connection = id;
  report.status = words.Status();
  report.provider_error = static_cast<uint32_t>(words.OptionalNumber("error").value_or(0));
  if constexpr (requires { report.private_data; }) report.private_data = words.OptionalData();
  return report;
}

FabricReport ParseConnection(Sentence& words) {
  const ConnectionId id = words.Connection();
  if (words.Take("reaches endpoint")) {
    FabricConnectRequested report;
    report.connection = id;
    report.endpoint = EndpointId(words.Number());
    report.local = words.Address("at");
    report.peer = words.Address("from");
    report.peer_limits = words.Reads("reads");
    report.private_data = words.OptionalData();
    ParseSteps(words, report.three_way, report.qp_attributes);
    report.device = DeviceId(words.OptionalNumber("on device").value_or(0));
    return report;
  }
  if (words.Take("is replied to")) {
    FabricReplied report{id, words.Reads("reads"), {}, true, {}};
    report.private_data = words.OptionalData();
    ParseSteps(words, report.three_way, report.qp_attributes);
    return report;
  }
  if (words.Take("cannot connect")) {
    auto report = ParseFailure<FabricConnectFailed>(words, id);
    report.qp_reusable = !words.Take("the QP is spoiled");
    report.explanation = words.OptionalText("since");
    return report;
  }
  if (words.Take("is established")) {
    FabricEstablished report{id, std::nullopt};
    if (const auto secret = words.OptionalNumber("hand-off")) {
      report.handoff = SecretOf<HandoffSecret>(static_cast<uint8_t>(*secret));
    }
    return report;
  }
  if (words.Take("fails")) {
    auto report = ParseFailure<FabricFailed>(words, id);
    report.explanation = words.OptionalText("since");
    return report;
  }
  if (words.Take("is disconnected")) return ParseFailure<FabricDisconnected>(words, id);
  if (words.Take("is handed off")) return FabricHandedOff{id};
  words.Expect("is released");
  return FabricReleased{id};
}

Event Parse(Sentence& words, const ClientDefaults& defaults) {
  if (words.Take("the clock strikes")) return DeadlineReached{};
  if (words.Take("the broker is started again")) return Recover{};
  if (words.Take("stream")) return ParseStream(words);
  if (words.Take("session")) return ParseSession(words, defaults);
  if (words.Take("device")) return ParseDevice(words);
  if (words.Take("endpoint")) return ParseEndpoint(words);
  return ParseConnection(words);
}

}  // namespace

absl::StatusOr<Event> ParseEvent(std::string_view line, const ClientDefaults& defaults) {
  Sentence words(line);
  Event event = Parse(words, defaults);
  if (absl::Status status = words.status(); !status.ok()) return status;
  return event;
}

}  // namespace rdmabroker
