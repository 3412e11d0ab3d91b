// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "broker/core/testing/text.h"
#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

using absl::StrAppend;
using absl::StrCat;

std::string IpsText(const std::vector<IpAddress>& ips) {
  if (ips.empty()) return "no address";
  return absl::StrJoin(ips, " ", [](std::string* out, const IpAddress& ip) { *out += ip.ToString(); });
}

const char* UseText(EndpointUse use) {
  switch (use) {
    case EndpointUse::kListener:
      return "listener";
    case EndpointUse::kDedicated:
      return "dedicated";
    case EndpointUse::kShared:
      return "shared";
    case EndpointUse::kReserved:
      return "reserved";
  }
  return "?";
}

std::string TextOf(std::monostate) { return ""; }

std::string TextOf(const AdapterOpened& opened) {
  const AdapterInfo& info = opened.info;
  return StrCat(", adapter ", opened.adapter.value(), ", version ", info.version.major, ".", info.version.minor,
                ", reads ", info.max_inbound_read_limit, "/", info.max_outbound_read_limit, ", data ",
                info.max_caller_data, "/", info.max_callee_data,
                opened.client_ends_connections ? ", clients end connections" : "");
}

std::string TextOf(const ListenerCreated& created) { return StrCat(", listener ", created.listener.value()); }

std::string TextOf(const Listening& listening) { return StrCat(", listening on ", listening.address.ToString()); }

std::string TextOf(const SharedEndpointCreated& created) {
  return StrCat(", shared endpoint ", created.shared_endpoint.value(), " at ", created.address.ToString());
}

std::string TextOf(const PortReserved& reserved) {
  return StrCat(", reservation ", reserved.reservation.value(), " of ", reserved.address.ToString());
}

std::string TextOf(const ConnectorCreated& created) { return StrCat(", connector ", created.connector.value()); }

std::string TextOf(const ConnectionData& data) {
  std::string text = StrCat(", local ", data.local.ToString(), ", peer ", data.peer.ToString(), ", reads ",
                            ReadsText(data.limits), WithData(data.private_data), data.three_way ? "" : ", two-way");
  for (const QpAttributes& step : data.qp_attributes) {
    StrAppend(&text, ", QP step with reads ", step.max_inbound_reads, "/", step.max_outbound_reads);
  }
  return text;
}

std::string TextOf(const ConnectionEstablished& established) {
  return StrCat(", established, reads ", ReadsText(established.limits),
                established.handoff ? StrCat(", hand-off ", established.handoff->front()) : "");
}

std::string EventText(const OutcomeEvent& event) {
  return StrCat("outcome of request ", event.request.value(), ": ", ToText(event.outcome));
}

std::string EventText(const ConnectEvent& event) {
  return StrCat("listener ", event.listener.value(), " has connector ", event.connector.value(), " on adapter ",
                event.adapter.value(), TextOf(event.data));
}

std::string EventText(const DisconnectEvent& event) {
  return StrCat("connector ", event.connector.value(), " disconnected, ", StatusText(event.status),
                WithError(event.provider_error));
}

std::string EventText(const AdapterRemovedEvent& event) {
  return StrCat("adapter ", event.adapter.value(), " removed");
}

std::string EventText(const AdapterDisabledEvent& event) {
  return StrCat("adapter ", event.adapter.value(), " disabled");
}

std::string EventText(const AddressEvent& event) {
  return StrCat(NameOf(ObjectOf(event.holder)), event.present ? " has its address" : " has lost its address");
}

std::string RequestText(const FabricBind& request) {
  return StrCat("bind endpoint ", request.endpoint.value(), ", ", UseText(request.use), ", to ", IpsText(request.ips),
                " port ", request.port);
}

std::string RequestText(const FabricRepurpose& request) {
  return StrCat("turn endpoint ", request.endpoint.value(), " into ", UseText(request.use));
}

std::string RequestText(const FabricRebind& request) {
  return StrCat("rebind endpoint ", request.endpoint.value(), " to ", IpsText(request.ips));
}

std::string RequestText(const FabricUnbind& request) { return StrCat("unbind endpoint ", request.endpoint.value()); }

std::string RequestText(const FabricConnect& request) {
  return StrCat("start ", ConnectionText(request.connection), " on endpoint ", request.endpoint.value(),
                " for session ", request.session.value(), " of user ", request.uid, "'s process ", request.process,
                " with QP ", request.qp.value, " from ", request.local.ToString(),
                request.any_port ? " or another port" : "", " to ", request.peer.ToString(), ", reads ",
                ReadsText(request.limits), WithOptions(request.options), WithData(request.private_data));
}

std::string RequestText(const FabricComplete& request) {
  return StrCat("complete ", ConnectionText(request.connection), ", reads ", ReadsText(request.limits));
}

std::string RequestText(const FabricAccept& request) {
  return StrCat("accept ", ConnectionText(request.connection), " for session ", request.session.value(), " of user ",
                request.uid, "'s process ", request.process, " with QP ", request.qp.value, ", reads ",
                ReadsText(request.limits), WithOptions(request.options), WithData(request.private_data));
}

std::string RequestText(const FabricReject& request) {
  return StrCat("reject ", ConnectionText(request.connection), WithData(request.private_data));
}

std::string RequestText(const FabricRefuse& request) { return StrCat("refuse ", ConnectionText(request.connection)); }

std::string RequestText(const FabricDisconnect& request) {
  return StrCat("disconnect ", ConnectionText(request.connection));
}

std::string RequestText(const FabricRelease& request) {
  return StrCat("release ", ConnectionText(request.connection), request.client_ended ? ", ended by its client" : "");
}

std::string RequestText(const FabricAdoptEndpoint& request) {
  return StrCat("adopt endpoint ", request.endpoint.value(), ", ", UseText(request.use), ", at ", IpsText(request.ips),
                " port ", request.port);
}

std::string RequestText(const FabricAdoptConnection& request) {
  static constexpr const char* kStages[] = {"connecting", "requested", "replied", "established", "over"};
  return StrCat("adopt ", ConnectionText(request.connection), ", ", kStages[static_cast<size_t>(request.stage)],
                request.endpoint ? StrCat(", on endpoint ", request.endpoint.value()) : "", ", from ",
                request.local.ToString(), " to ", request.peer.ToString());
}

std::string RequestText(const FabricAdopted&) { return "adopt nothing more"; }

std::string EffectText(const SessionOpened& effect) {
  return StrCat("stream ", effect.stream.value(), ": is session ", effect.session.value(), "'s");
}

std::string EffectText(const SessionRefused& effect) {
  return StrCat("stream ", effect.stream.value(), ": refused, ", ToText(effect.outcome));
}

std::string EffectText(const Answer& effect) {
  return StrCat("session ", effect.session.value(), ", request ", effect.id.value(), ": ", ToText(effect.outcome));
}

std::string EffectText(const NumberedEvent& effect) {
  return StrCat("session ", effect.session.value(), ", event ", effect.number.value(),
                effect.stream ? StrCat(" on stream ", effect.stream.value()) : "", ": ",
                std::visit([](const auto& event) { return EventText(event); }, effect.event));
}

std::string EffectText(const SessionEnded& effect) {
  return StrCat("session ", effect.session.value(), ": ended",
                effect.stream ? StrCat(", and its stream ", effect.stream.value()) : "");
}

std::string EffectText(const StreamReplaced& effect) { return StrCat("stream ", effect.stream.value(), ": replaced"); }

std::string EffectText(const FabricRequest& effect) {
  return std::visit(
      [](const auto& request) { return StrCat("device ", request.device.value(), ": ", RequestText(request)); },
      effect);
}

}  // namespace

std::string DataText(const Bytes& data) {
  const bool uniform =
      data.size() > 16 && std::all_of(data.begin(), data.end(), [&](uint8_t byte) { return byte == data.front(); });
  std::string text = uniform ? StrCat(data.size(), "*\"") : "\"";
  const size_t shown = uniform ? 1 : data.size();
  for (size_t i = 0; i < shown; ++i) {
    const bool plain = data[i] >= ' ' && data[i] < 0x7F && data[i] != '"' && data[i] != '\\';
    if (plain) {
      text += static_cast<char>(data[i]);
    } else {
      StrAppend(&text, "\\x", absl::Hex(data[i], absl::kZeroPad2));
    }
  }
  return text + "\"";
}

std::string ConnectionText(ConnectionId connection) {
  if ((connection.value() & kIncomingConnection) == 0) return StrCat("connection ", connection.value());
  const uint64_t device = (connection.value() & ~kIncomingConnection) >> 48;
  const uint64_t counter = connection.value() & ((uint64_t{1} << 48) - 1);
  return StrCat("incoming ", counter, device == 1 ? "" : StrCat(" of device ", device));
}

std::string ToText(const Outcome& outcome) {
  std::string text = StrCat(StatusText(outcome.status),
                            std::visit([](const auto& payload) { return TextOf(payload); }, outcome.payload),
                            WithError(outcome.provider_error));
  if (outcome.retryable) StrAppend(&text, ", retryable");
  if (outcome.retry_same_qp) StrAppend(&text, " with the same QP");
  if (!outcome.hint.empty()) StrAppend(&text, " (", outcome.hint, ")");
  return text;
}

std::string ToText(const Effect& effect) {
  return std::visit([](const auto& typed) { return EffectText(typed); }, effect);
}

}  // namespace rdmabroker
