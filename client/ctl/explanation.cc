// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/explanation.h"

#include <google/protobuf/util/time_util.h>

#include <cstdlib>

#include "client/ctl/table.h"

namespace rdmabroker::ctl {
namespace {

using google::protobuf::util::TimeUtil;

constexpr struct {
  v1::ConnectorWait wait;
  const char* words;
} kWaits[] = {
    {v1::CONNECTOR_WAIT_NOTHING, "nothing"},
    {v1::CONNECTOR_WAIT_CLIENT_CONNECT, "Connect or close, by its client"},
    {v1::CONNECTOR_WAIT_LOCAL_ADDRESS, "the system's answer for its local address"},
    {v1::CONNECTOR_WAIT_EARLIER_TRY, "the end of its earlier try"},
    {v1::CONNECTOR_WAIT_PEER_REPLY, "the peer's answer"},
    {v1::CONNECTOR_WAIT_CLIENT_COMPLETE, "CompleteConnect or Reject, by its client"},
    {v1::CONNECTOR_WAIT_ESTABLISHMENT, "the handshake's last message"},
    {v1::CONNECTOR_WAIT_CLIENT_ACCEPT, "Accept or Reject, by its client"},
    {v1::CONNECTOR_WAIT_HANDOFF, "its client, who is to fetch the connection's transport"},
    {v1::CONNECTOR_WAIT_CLIENT_DISCONNECT, "Disconnect or close, by its client"},
    {v1::CONNECTOR_WAIT_PEER_DISCONNECT, "the peer's disconnect"},
    {v1::CONNECTOR_WAIT_CLIENT_CLOSE, "its client's close"},
    {v1::CONNECTOR_WAIT_RELEASE, "the system, which is to let go of its connection"},
    {v1::CONNECTOR_WAIT_UNBINDING, "its local address, which is still held"},
    {v1::CONNECTOR_WAIT_CLIENT_RETURN, "its client, who has lost the broker and may return"},
};

std::string WaitInWords(v1::ConnectorWait wait) {
  for (const auto& row : kWaits) {
    if (row.wait == wait) return row.words;
  }
  return "what this program does not know";
}

std::string Number(uint64_t number) { return std::to_string(number); }

std::string Count(uint64_t number, const std::string& of_one) {
  return Number(number) + " " + of_one + (number == 1 ? "" : "s");
}

// "2026-11-23T15:04:05Z (12 s ago)", or "(in 12 s)".
std::string When(const google::protobuf::Timestamp& time, std::chrono::system_clock::time_point now) {
  const int64_t now_s = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const int64_t away = time.seconds() - now_s;
  const std::string seconds = std::to_string(std::abs(away)) + " s";
  return TimeUtil::ToString(TimeUtil::SecondsToTimestamp(time.seconds())) +
         (away > 0 ? " (in " + seconds + ")" : " (" + seconds + " ago)");
}

std::string HolderInWords(const v1::EndpointHolder& holder) {
  switch (holder.holder_case()) {
    case v1::EndpointHolder::kListenerId:
      return "listener " + Number(holder.listener_id());
    case v1::EndpointHolder::kSharedEndpointId:
      return "shared endpoint " + Number(holder.shared_endpoint_id());
    case v1::EndpointHolder::kReservationId:
      return "reservation " + Number(holder.reservation_id());
    case v1::EndpointHolder::kConnectorId:
      return "connector " + Number(holder.connector_id());
    case v1::EndpointHolder::HOLDER_NOT_SET:
      break;
  }
  return "somebody";
}

std::string SessionInWords(const v1::ExplainConnectorReply& reply) {
  if (!reply.has_session()) return Number(reply.connector().session_id()) + ", which is over";
  const v1::SessionInfo& session = reply.session();
  const std::string pid = session.pid() == 0 ? "a pid that is not visible here" : "pid " + Number(session.pid());
  return Number(session.session_id()) + ", of uid " + Number(session.uid()) + " and " + pid + ", " +
         Word(v1::SessionState_Name(session.state()), "SESSION_STATE_") +
         (reply.event_unacknowledged() ? "; it has not acknowledged an event about this connector" : "");
}

std::string AdapterInWords(const v1::ExplainConnectorReply& reply) {
  const v1::AdapterRow& adapter = reply.adapter();
  return Number(reply.connector().adapter_id()) + " of " + adapter.device().name() + ", " +
         Word(v1::DeviceState_Name(adapter.activity().state()), "DEVICE_STATE_") +
         (adapter.device().mtu() == 0 ? "" : ", MTU " + Number(adapter.device().mtu())) +
         (adapter.activity().withheld() ? ""
                                        : ", " + Count(adapter.activity().active_connections(), "active connection")) +
         (adapter.device().unusable_reason().empty() ? "" : "; " + adapter.device().unusable_reason());
}

std::string ListenerInWords(const v1::ListenerInfo& listener) {
  return Number(listener.listener_id()) + " at " + AddressOf(listener.address(), listener.has_address()) + ", " +
         Word(v1::ListenerState_Name(listener.state()), "LISTENER_STATE_") + ", " +
         Number(listener.undecided_connectors()) + " undecided, " + Count(listener.successors(), "successor") +
         (listener.paused() ? ", paused" : "") + (listener.closing() ? ", closing" : "");
}

std::string SharedEndpointInWords(const v1::SharedEndpointInfo& shared) {
  return Number(shared.shared_endpoint_id()) + " at " + AddressOf(shared.address(), shared.has_address()) + ", " +
         Count(shared.successors(), "successor") + (shared.closing() ? ", closing" : "");
}

std::string EndpointInWords(const v1::ExplainConnectorReply& reply) {
  const v1::EndpointInfo& endpoint = reply.endpoint();
  std::string text = Number(endpoint.endpoint_id()) + " at " + AddressOf(endpoint.address(), endpoint.has_address()) +
                     ", " + Word(v1::EndpointState_Name(endpoint.state()), "ENDPOINT_STATE_") + ", " +
                     Count(endpoint.references(), "reference") + ", " + Count(endpoint.connections(), "connection") +
                     " on the wire";
  std::string others;
  for (const v1::EndpointHolder& holder : reply.holders()) {
    others += (others.empty() ? "; held by " : ", ") + HolderInWords(holder);
  }
  return text + others + (others.empty() ? "" : ", too");
}

std::string FailureInWords(const v1::ConnectorFailure& failure, std::chrono::system_clock::time_point now) {
  const std::string reason =
      failure.provider_error() == 0 ? "" : ", the transport's reason " + Number(failure.provider_error());
  return v1::NdkStatus_Name(failure.status()) + reason + ", " + When(failure.time(), now) + ": " + failure.hint();
}

}  // namespace

std::string ExplainInWords(const v1::ExplainConnectorReply& reply, std::chrono::system_clock::time_point now) {
  const v1::ConnectorInfo& connector = reply.connector();
  Table table = {{"connector:", Number(connector.connector_id()) + (connector.closing() ? ", closing" : "")},
                 {"state:", Word(v1::ConnectorState_Name(connector.state()), "CONNECTOR_STATE_") +
                                (reply.has_since() ? ", since " + When(reply.since(), now) : "")},
                 {"waits for:", WaitInWords(reply.waits_for())}};
  if (reply.has_deadline()) table.push_back({"gives up:", When(reply.deadline(), now)});
  table.push_back({"session:", SessionInWords(reply)});
  table.push_back({"adapter:", AdapterInWords(reply)});
  table.push_back({"local:", AddressOf(connector.local(), connector.has_local())});
  table.push_back({"peer:", AddressOf(connector.peer(), connector.has_peer())});
  if (connector.qp_number() != 0) table.push_back({"queue pair:", Number(connector.qp_number())});
  if (connector.path_mtu() != 0) table.push_back({"path MTU:", Number(connector.path_mtu())});
  if (reply.has_listener()) table.push_back({"listener:", ListenerInWords(reply.listener())});
  if (reply.has_shared_endpoint())
    table.push_back({"shared endpoint:", SharedEndpointInWords(reply.shared_endpoint())});
  if (reply.has_endpoint()) table.push_back({"endpoint:", EndpointInWords(reply)});
  if (reply.has_failure()) table.push_back({"last failure:", FailureInWords(reply.failure(), now)});
  if (reply.recovered())
    table.push_back({"recovered:", "its connection was begun by an earlier process of the broker"});
  table.push_back({"what to do:", reply.advice()});
  return Format(table);
}

}  // namespace rdmabroker::ctl
