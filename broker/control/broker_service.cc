// SPDX-License-Identifier: Apache-2.0

#include "broker/control/broker_service.h"

#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"

namespace rdmabroker {
namespace {

Outcome Answer(Broker& broker, const Caller* caller, const v1::RequestHeader& header, Translated request) {
  if (caller == nullptr || caller->IsRemote()) {
    return {.status = NdkStatus::kAccessDenied,
            .hint = "requests are taken on the control socket of the broker's node only"};
  }
  if (auto* malformed = std::get_if<Outcome>(&request)) return std::move(*malformed);
  return broker.Ask(*caller, {.session = SessionId(header.session_id()),
                              .id = RequestId(header.request_id()),
                              .acknowledged = EventNumber(header.acknowledged_event()),
                              .request = std::get<Request>(std::move(request))});
}

// Whether the caller's session has lost its stream and may return. Its requests may have been on the way meanwhile.
bool IsAway(const Broker& broker, const Caller& caller, SessionId id) {
  const auto& sessions = broker.core().records().sessions;
  const auto session = sessions.find(id);
  if (session == sessions.end() || session->second.ended || session->second.stream) return false;
  const Identity& owner = session->second.identity;
  return caller.IsUserOf(owner) && owner.pid == caller.identity.pid;
}

template <typename Base, typename Request>
void ServeOutcome(UnaryContext& context, Broker& broker, v1::Broker::AsyncService& service,
                  UnaryMethod<Base, Request, v1::Outcome> method) {
  const absl::string_view name = CallOf<Request>();
  context.metrics.ExpectRequest(name);
  const UnaryHandler<Request, v1::Outcome> handler = [&broker, &context, name](const Caller* caller,
                                                                               const Request& request,
                                                                               v1::Outcome* reply) {
    // Without an outcome: to be repeated, and not to be told to whoever made it.
    if (caller != nullptr && !caller->IsRemote() && IsAway(broker, *caller, SessionId(request.header().session_id()))) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                          "header.session_id: the session has lost its stream; return to it, then repeat the request");
    }
    const Outcome outcome = Answer(broker, caller, request.header(), FromProto(request));
    context.metrics.CountRequest(name, outcome.status);
    ToProto(outcome, reply);
    return GrpcStatusOf(outcome);
  };
  ServeUnary(context, service, method, handler);
}

}  // namespace

void ServeRequests(UnaryContext& context, Broker& broker, v1::Broker::AsyncService& service) {
  const auto serve = [&](auto... methods) { (ServeOutcome(context, broker, service, methods), ...); };
  using Service = v1::Broker::AsyncService;
  serve(&Service::RequestOpenAdapter, &Service::RequestCloseAdapter, &Service::RequestCreateListener,
        &Service::RequestListen, &Service::RequestControlConnectEvents, &Service::RequestCloseListener,
        &Service::RequestCreateSharedEndpoint, &Service::RequestCloseSharedEndpoint, &Service::RequestReservePort,
        &Service::RequestReleasePort, &Service::RequestCreateConnector, &Service::RequestConnect,
        &Service::RequestConnectWithSharedEndpoint, &Service::RequestCompleteConnect, &Service::RequestAccept,
        &Service::RequestReject, &Service::RequestDisconnect, &Service::RequestGetConnectionData,
        &Service::RequestReportConnectionEnd, &Service::RequestCloseConnector);
}

}  // namespace rdmabroker
