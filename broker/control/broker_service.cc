// SPDX-License-Identifier: Apache-2.0

#include "broker/control/broker_service.h"

#include <utility>
#include <variant>

#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/control/unary_call.h"
#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker {
namespace {

// Whether the caller's session has lost its stream and may return. Its requests may have been on the way meanwhile.
bool IsAway(const Broker& broker, const Caller& caller, SessionId id) {
  const auto& sessions = broker.core().records().sessions;
  const auto session = sessions.find(id);
  if (session == sessions.end() || session->second.ended || session->second.stream) return false;
  const Identity& owner = session->second.identity;
  return caller.IsUserOf(owner) && owner.pid == caller.identity.pid;
}

template <typename Message>
void ServeOutcome(Services& services, Broker& broker, Metrics& metrics) {
  const absl::string_view name = CallOf<Message>();
  metrics.ExpectRequest(name);
  const SlowUnaryHandler<Message, v1::Outcome> handler =
      [&broker, &metrics, name](const Caller& caller, const Message& request, const UnaryAnswer<v1::Outcome>& answer) {
        const auto end = [&metrics, name, answer](const Outcome& outcome) {
          metrics.CountRequest(name, outcome.status);
          v1::Outcome reply;
          ToProto(outcome, &reply);
          answer(RpcStatusOf(outcome), reply);
        };
        if (caller.IsRemote()) {
          return end({.status = NdkStatus::kAccessDenied,
                      .hint = "requests are taken on the control socket of the broker's node only"});
        }
        const SessionId session(request.header().session_id());
        // Without an outcome: to be repeated, and not to be told to whoever made it.
        if (IsAway(broker, caller, session)) {
          return answer({.code = absl::StatusCode::kUnavailable,
                         .message = "header.session_id: the session has lost its stream; return to it, then repeat the "
                                    "request"},
                        {});
        }
        Translated translated = FromProto(request);
        if (const auto* malformed = std::get_if<Outcome>(&translated)) return end(*malformed);
        broker.Ask(caller,
                   {.session = session,
                    .id = RequestId(request.header().request_id()),
                    .acknowledged = EventNumber(request.header().acknowledged_event()),
                    .request = std::get<Request>(std::move(translated))},
                   end);
      };
  ServeSlowUnary(services, handler);
}

template <typename... Messages>
void ServeAll(Services& services, Broker& broker, Metrics& metrics) {
  (ServeOutcome<Messages>(services, broker, metrics), ...);
}

}  // namespace

void ServeRequests(Services& services, Broker& broker, Metrics& metrics) {
  ServeAll<v1::OpenAdapterRequest, v1::CloseAdapterRequest, v1::CreateListenerRequest, v1::ListenRequest,
           v1::ControlConnectEventsRequest, v1::CloseListenerRequest, v1::CreateSharedEndpointRequest,
           v1::CloseSharedEndpointRequest, v1::ReservePortRequest, v1::ReleasePortRequest, v1::CreateConnectorRequest,
           v1::ConnectRequest, v1::ConnectWithSharedEndpointRequest, v1::CompleteConnectRequest, v1::AcceptRequest,
           v1::RejectRequest, v1::DisconnectRequest, v1::GetConnectionDataRequest, v1::ReportConnectionEndRequest,
           v1::CloseConnectorRequest>(services, broker, metrics);
}

}  // namespace rdmabroker
