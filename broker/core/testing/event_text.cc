// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/text.h"
#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

using absl::StrAppend;
using absl::StrCat;

std::string TextOf(const OpenAdapter& request) {
  return StrCat("open adapter ", request.device, ", version ", request.version.major, ".", request.version.minor);
}

std::string TextOf(const CloseAdapter& request) { return StrCat("close adapter ", request.adapter.value()); }

std::string TextOf(const CreateListener& request) {
  return StrCat("create listener on adapter ", request.adapter.value());
}

std::string PlaceText(const SocketAddress& address, ReservationId reservation) {
  if (!reservation) return StrCat(" at ", address.ToString());
  return StrCat(address == SocketAddress() ? "" : StrCat(" at ", address.ToString()), " from reservation ",
                reservation.value());
}

std::string TextOf(const Listen& request) {
  return StrCat("listen with listener ", request.listener.value(), PlaceText(request.address, request.reservation),
                request.await_address ? ", once it is there" : "", request.any_adapter ? ", on any adapter" : "");
}

std::string TextOf(const ControlConnectEvents& request) {
  return StrCat(request.pause ? "pause" : "unpause", " listener ", request.listener.value());
}

std::string TextOf(const CloseListener& request) { return StrCat("close listener ", request.listener.value()); }

std::string TextOf(const CreateSharedEndpoint& request) {
  return StrCat("create shared endpoint on adapter ", request.adapter.value(),
                PlaceText(request.address, request.reservation));
}

std::string TextOf(const CloseSharedEndpoint& request) {
  return StrCat("close shared endpoint ", request.shared_endpoint.value());
}

std::string TextOf(const ReservePort& request) {
  return StrCat("reserve port on adapter ", request.adapter.value(), " at ", request.address.ToString());
}

std::string TextOf(const ReleasePort& request) { return StrCat("release reservation ", request.reservation.value()); }

std::string TextOf(const CreateConnector& request) {
  return StrCat("create connector on adapter ", request.adapter.value());
}

std::string TextOf(const Connect& request) {
  return StrCat("connect connector ", request.connector.value(), " with QP ", request.qp.value, " from ",
                request.source.ToString(),
                request.route == Route() ? "" : StrCat(" by route ", request.route.source.ToString()), " to ",
                request.destination.ToString(), ", reads ", ReadsText(request.limits), WithOptions(request.options),
                WithData(request.private_data));
}

std::string TextOf(const ConnectWithSharedEndpoint& request) {
  return StrCat("connect connector ", request.connector.value(), " with QP ", request.qp.value,
                " through shared endpoint ", request.shared_endpoint.value(), " to ", request.destination.ToString(),
                ", reads ", ReadsText(request.limits), WithOptions(request.options), WithData(request.private_data));
}

std::string TextOf(const CompleteConnect& request) { return StrCat("complete connector ", request.connector.value()); }

std::string TextOf(const Accept& request) {
  return StrCat("accept connector ", request.connector.value(), " with QP ", request.qp.value, ", reads ",
                ReadsText(request.limits), WithOptions(request.options), WithData(request.private_data));
}

std::string TextOf(const Reject& request) {
  return StrCat("reject connector ", request.connector.value(), WithData(request.private_data));
}

std::string TextOf(const Disconnect& request) { return StrCat("disconnect connector ", request.connector.value()); }

std::string TextOf(const GetConnectionData& request) {
  return StrCat("get data of connector ", request.connector.value());
}

std::string TextOf(const ReportConnectionEnd& request) {
  return StrCat("report connector ", request.connector.value(), request.graceful ? " ended" : " broke",
                WithError(request.provider_error));
}

std::string TextOf(const CloseConnector& request) { return StrCat("close connector ", request.connector.value()); }

std::string TextOf(const DeviceChanged& report) {
  const Device& device = report.device;
  const AdapterInfo& info = device.info;
  std::string text =
      StrCat("device ", device.id.value(), " is ", device.name, " in namespace ", device.network_namespace,
             device.port_space == PortSpace::kTcp ? " with TCP ports" : "", ", reads ", info.max_inbound_read_limit,
             "/", info.max_outbound_read_limit, ", data ", info.max_caller_data, "/", info.max_callee_data,
             (info.adapter_flags & kLoopbackConnectionsSupported) == 0 ? "" : ", loopback",
             device.client_ends_connections ? ", clients end connections" : "",
             device.keeps_qps_until_released ? ", keeps QPs until released" : "",
             WithQuoted("unusable", device.unusable_reason), ", at");
  for (const IpAddress& ip : device.addresses) StrAppend(&text, " ", ip.ToString());
  return text;
}

std::string TextOf(const DeviceRemoved& report) { return StrCat("device ", report.device.value(), " is removed"); }

std::string TextOf(const FabricBound& report) { return StrCat("endpoint ", report.endpoint.value(), " is bound"); }

std::string TextOf(const FabricBindFailed& report) {
  return StrCat("endpoint ", report.endpoint.value(), " is not bound, ", StatusText(report.status),
                WithError(report.provider_error));
}

std::string TextOf(const FabricUnbound& report) { return StrCat("endpoint ", report.endpoint.value(), " is unbound"); }

// ", two-way, 2 QP steps".
std::string StepsText(bool three_way, const std::vector<QpAttributes>& steps) {
  return StrCat(three_way ? "" : ", two-way", steps.empty() ? "" : StrCat(", QP steps ", steps.size()));
}

std::string TextOf(const FabricConnectRequested& report) {
  return StrCat(ConnectionText(report.connection), " reaches endpoint ", report.endpoint.value(), " at ",
                report.local.ToString(), " from ", report.peer.ToString(), ", reads ", ReadsText(report.peer_limits),
                WithData(report.private_data), StepsText(report.three_way, report.qp_attributes),
                report.device ? StrCat(", on device ", report.device.value()) : "");
}

std::string TextOf(const FabricReplied& report) {
  return StrCat(ConnectionText(report.connection), " is replied to, reads ", ReadsText(report.peer_limits),
                WithData(report.private_data), StepsText(report.three_way, report.qp_attributes));
}

std::string TextOf(const FabricConnectFailed& report) {
  return StrCat(ConnectionText(report.connection), " cannot connect, ", StatusText(report.status),
                WithError(report.provider_error), WithData(report.private_data),
                report.qp_reusable ? "" : ", the QP is spoiled", WithQuoted("since", report.explanation));
}

std::string TextOf(const FabricEstablished& report) {
  return StrCat(ConnectionText(report.connection), " is established",
                report.handoff ? StrCat(", hand-off ", report.handoff->front()) : "");
}

std::string TextOf(const FabricFailed& report) {
  return StrCat(ConnectionText(report.connection), " fails, ", StatusText(report.status),
                WithError(report.provider_error), WithData(report.private_data),
                WithQuoted("since", report.explanation));
}

std::string TextOf(const FabricDisconnected& report) {
  return StrCat(ConnectionText(report.connection), " is disconnected, ", StatusText(report.status),
                WithError(report.provider_error));
}

std::string TextOf(const FabricHandedOff& report) {
  return StrCat(ConnectionText(report.connection), " is handed off");
}

std::string TextOf(const FabricReleased& report) { return StrCat(ConnectionText(report.connection), " is released"); }

std::string IdentityText(const Identity& identity, const SessionSecret& secret) {
  return StrCat(", uid ", identity.uid, ", pid ", identity.pid, ", secret ", secret.front());
}

std::string NewsText(AddressNews news) {
  if (news == AddressNews::kOfAll) return ", hears of addresses";
  return news == AddressNews::kOfListeners ? ", hears of listeners' addresses" : "";
}

std::string TextOf(const OpenSession& event) {
  return StrCat("stream ", event.stream.value(), " opens a session", IdentityText(event.identity, event.secret),
                NewsText(event.address_news));
}

std::string TextOf(const ResumeSession& event) {
  return StrCat("stream ", event.stream.value(), " resumes session ", event.session.value(), ", seen ",
                event.acknowledged.value(), IdentityText(event.identity, event.secret), NewsText(event.address_news));
}

std::string TextOf(const StreamLost& event) {
  const std::string session = StrCat("session ", event.session.value());
  return event.end == StreamEnd::kClient ? StrCat(session, " loses its stream ", event.stream.value())
                                         : StrCat(session, " is cut from its stream ", event.stream.value());
}

std::string TextOf(const DisableDevice& event) { return StrCat("device ", event.device.value(), " is disabled"); }

std::string TextOf(const EnableDevice& event) { return StrCat("device ", event.device.value(), " is enabled"); }

std::string TextOf(const EndSession& event) { return StrCat("session ", event.session.value(), " is ended"); }

std::string TextOf(const AcknowledgeEvents& event) {
  return StrCat("session ", event.session.value(), " has seen ", event.acknowledged.value());
}

std::string TextOf(const DeadlineReached&) { return "the clock strikes"; }

std::string TextOf(const Recover&) { return "the broker is started again"; }

// ", refused STATUS_ACCESS_DENIED, since "it is so", for now", or nothing.
std::string RefusalText(const std::optional<Outcome>& refusal) {
  if (!refusal) return "";
  return StrCat(", refused ", StatusText(refusal->status), WithQuoted("since", refusal->hint),
                refusal->retryable ? ", for now" : "");
}

std::string TextOf(const ClientRequest& event) {
  return StrCat("session ", event.session.value(), ", request ", event.id.value(), ", seen ",
                event.acknowledged.value(), RefusalText(event.refusal), ": ",
                std::visit([](const auto& request) { return TextOf(request); }, event.request));
}

std::string TextOf(const FabricReport& event) {
  return std::visit([](const auto& report) { return TextOf(report); }, event);
}

}  // namespace

std::string ToText(const Event& event) {
  return std::visit([](const auto& typed) { return TextOf(typed); }, event);
}

}  // namespace rdmabroker
