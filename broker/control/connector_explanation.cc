// SPDX-License-Identifier: Apache-2.0

#include "broker/control/connector_explanation.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/control/inspection_rows.h"
#include "broker/control/translation.h"
#include "dataplane/provider_error.h"

namespace rdmabroker {
namespace {

// inspection.proto, ExplainConnectorReply.holders.
constexpr size_t kMostHolders = 100;

constexpr WaitAdvice kOnWaits[] = {
    {v1::CONNECTOR_WAIT_NOTHING, "Nothing is to be done: it is connected."},
    {v1::CONNECTOR_WAIT_CLIENT_CONNECT, "Nothing is wrong here: its client has not called Connect yet."},
    {v1::CONNECTOR_WAIT_LOCAL_ADDRESS,
     "It should take milliseconds: if it does not, see whether the broker's log has complaints about its device."},
    {v1::CONNECTOR_WAIT_EARLIER_TRY,
     "The system has not let go of the earlier try, which a silent peer can hold up for a minute or so: wait, or have "
     "the client close it."},
    {v1::CONNECTOR_WAIT_PEER_REPLY,
     "See on the peer's node whether the request has come (`rdma-brokerctl connectors` there) and its listener's "
     "client accepts; where it has not come, look at the network between the two addresses."},
    {v1::CONNECTOR_WAIT_CLIENT_COMPLETE,
     "The peer has accepted: see why its client, whose pid is named, does not call CompleteConnect."},
    {v1::CONNECTOR_WAIT_ESTABLISHMENT,
     "The handshake's last message is missing: see whether the peer lives, and what drops packets between the two "
     "addresses."},
    {v1::CONNECTOR_WAIT_CLIENT_ACCEPT,
     "A peer waits: see why the listener's client, whose pid is named, neither accepts nor rejects; it may hang, or "
     "leave events unread."},
    {v1::CONNECTOR_WAIT_HANDOFF,
     "See why its client, whose pid is named, does not fetch the connection's transport: it may hang, or not get at "
     "handoff.sock."},
    {v1::CONNECTOR_WAIT_CLIENT_DISCONNECT,
     "The peer has ended the connection: its client is to disconnect or close the connector."},
    {v1::CONNECTOR_WAIT_PEER_DISCONNECT, "The peer is to disconnect, too: wait, as the broker does not wait for ever."},
    {v1::CONNECTOR_WAIT_CLIENT_CLOSE, "The connection is over: its client is to close the connector."},
    {v1::CONNECTOR_WAIT_RELEASE,
     "It is being closed, and the system has not let go of the connection: wait a minute or so, then look at the "
     "broker's log for its device."},
    {v1::CONNECTOR_WAIT_UNBINDING,
     "It is being closed, and its local address is still held: look at who else holds that address, as those "
     "connections end first."},
    {v1::CONNECTOR_WAIT_CLIENT_RETURN,
     "Its client has lost the broker and has some time to return: see whether the process, whose pid is named, lives; "
     "otherwise the session ends by itself."},
};

constexpr FailureAdvice kOnFailures[] = {
    {v1::STATUS_CONNECTION_REFUSED,
     "See on the peer's node that something listens at that address and port, is not paused or closing, and has room "
     "in its backlog (`rdma-brokerctl listeners` there); a peer may also have rejected on purpose."},
    {v1::STATUS_IO_TIMEOUT,
     "See that the peer's host lives, that its listener's client decides in time, and that nothing between the two "
     "addresses drops packets."},
    {v1::STATUS_HOST_UNREACHABLE,
     "See that the peer's host is up and on the network of this adapter, as its address is not resolved."},
    {v1::STATUS_NETWORK_UNREACHABLE,
     "Give this adapter's network interface a route to the peer's network, and its address where the hint says that "
     "it is lost, or use another adapter."},
    {v1::STATUS_SHARING_VIOLATION,
     "Another has the local address (`rdma-brokerctl endpoints`, or a program outside the broker): close that, or use "
     "another port."},
    {v1::STATUS_ADDRESS_ALREADY_EXISTS,
     "A connection between the same two addresses exists (`rdma-brokerctl connectors`): close that, or use another "
     "port."},
    {v1::STATUS_TOO_MANY_ADDRESSES,
     "No ephemeral port is free: close connections, or widen limits.first_ephemeral_port to "
     "limits.last_ephemeral_port."},
    {v1::STATUS_INSUFFICIENT_RESOURCES,
     "Something has run out, which the hint names: give some back, or raise that limit, and have the client try "
     "again."},
    {v1::STATUS_CONNECTION_ABORTED,
     "The connection broke or its handshake was cut: do what the hint says; where it names no cause, "
     "see whether the peer's process or host has died. Then have the client connect again."},
    {v1::STATUS_DEVICE_REMOVED,
     "The device is gone: see why (`dmesg`), then have the client close what it has there and use another adapter."},
    {v1::STATUS_SUCCESS,
     "Have the client close the connector and connect with another; the hint says what went wrong."},
};

google::protobuf::Timestamp ToMessage(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(time));
}

template <typename Id, typename Record, typename Row>
void FillIfThere(const Records& records, const View& view, const Table<Id, Record>& table, Id id, Row mutable_row) {
  const auto found = table.find(id);
  if (found != table.end() && view.Shows(found->second)) Fill(records, found->second, mutable_row());
}

void SetHolder(ListenerId id, v1::EndpointHolder* row) { row->set_listener_id(id.value()); }
void SetHolder(SharedEndpointId id, v1::EndpointHolder* row) { row->set_shared_endpoint_id(id.value()); }
void SetHolder(ReservationId id, v1::EndpointHolder* row) { row->set_reservation_id(id.value()); }
void SetHolder(ConnectorId id, v1::EndpointHolder* row) { row->set_connector_id(id.value()); }

// Whose the address is, then others who share it, among the first thousands of objects that the caller may see.
void FillHolders(const Records& records, const Lists& lists, const View& view, const ConnectorRecord& connector,
                 v1::ExplainConnectorReply* reply) {
  const auto endpoint = records.endpoints.find(connector.endpoint);
  if (endpoint == records.endpoints.end()) return;
  const ObjectId owner = endpoint->second.owner;
  const auto add = [&]<typename Record>(const Record& record, bool owners) {
    const bool holds = record.endpoint == connector.endpoint && !record.left_endpoint;
    const ObjectId id = record.id;
    if (!holds || id == ObjectId(connector.id) || (id == owner) != owners) return;
    SetHolder(record.id, reply->add_holders());
  };
  const auto add_owner = [&]<typename Id, typename Record>(const Table<Id, Record>& table) {
    if (const Id* id = std::get_if<Id>(&owner)) {
      const auto found = table.find(*id);
      if (found != table.end() && view.Shows(found->second)) add(found->second, true);
    }
  };
  const auto add_others = [&]<typename Id, typename Record>(const Table<Id, Record>& table) {
    (void)view.Walk(ListOf(lists, Id()), table, Id(), [&](const Record& record) {
      add(record, false);
      return static_cast<size_t>(reply->holders_size()) < kMostHolders;
    });
  };
  const auto of_each = [&records](const auto& use) {
    use(records.listeners), use(records.shared_endpoints), use(records.reservations), use(records.connectors);
  };
  of_each(add_owner);
  of_each(add_others);
}

v1::ConnectorWait WaitByState(const ConnectorRecord& connector) {
  switch (connector.state) {
    case ConnectorState::kIdle:
      return v1::CONNECTOR_WAIT_CLIENT_CONNECT;
    case ConnectorState::kBinding:
      return connector.releasing ? v1::CONNECTOR_WAIT_EARLIER_TRY : v1::CONNECTOR_WAIT_LOCAL_ADDRESS;
    case ConnectorState::kConnecting:
      return v1::CONNECTOR_WAIT_PEER_REPLY;
    case ConnectorState::kReplied:
      return v1::CONNECTOR_WAIT_CLIENT_COMPLETE;
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      return v1::CONNECTOR_WAIT_ESTABLISHMENT;
    case ConnectorState::kRequested:
      return v1::CONNECTOR_WAIT_CLIENT_ACCEPT;
    case ConnectorState::kEstablished:
      return connector.awaits_handoff ? v1::CONNECTOR_WAIT_HANDOFF : v1::CONNECTOR_WAIT_NOTHING;
    case ConnectorState::kPeerDisconnected:
      return v1::CONNECTOR_WAIT_CLIENT_DISCONNECT;
    case ConnectorState::kDisconnecting:
      return v1::CONNECTOR_WAIT_PEER_DISCONNECT;
    case ConnectorState::kDead:
      break;
  }
  if (!connector.closing) return v1::CONNECTOR_WAIT_CLIENT_CLOSE;
  return connector.releasing ? v1::CONNECTOR_WAIT_RELEASE : v1::CONNECTOR_WAIT_UNBINDING;
}

// Whether it is its client's turn.
bool IsTheClients(v1::ConnectorWait wait) {
  switch (wait) {
    case v1::CONNECTOR_WAIT_CLIENT_CONNECT:
    case v1::CONNECTOR_WAIT_CLIENT_COMPLETE:
    case v1::CONNECTOR_WAIT_CLIENT_ACCEPT:
    case v1::CONNECTOR_WAIT_HANDOFF:
    case v1::CONNECTOR_WAIT_CLIENT_DISCONNECT:
    case v1::CONNECTOR_WAIT_CLIENT_CLOSE:
      return true;
    default:
      return false;
  }
}

std::string AdviceFor(v1::ConnectorWait wait, const ConnectorRecord& connector, const Device& device) {
  if (wait == v1::CONNECTOR_WAIT_NOTHING && ExceedsPort(connector, device)) {
    return absl::StrCat(
        "Give both hosts' networks the same MTU and have the client connect again: the peer sends up to ",
        PathMtu(connector), " bytes in a packet and this adapter's port takes ", device.mtu,
        ", so that longer messages do not arrive.");
  }
  const bool goes_on = wait != v1::CONNECTOR_WAIT_CLIENT_CONNECT && wait != v1::CONNECTOR_WAIT_CLIENT_CLOSE &&
                       wait != v1::CONNECTOR_WAIT_CLIENT_DISCONNECT;
  if (!connector.failure || goes_on) {
    return std::find_if(std::begin(kOnWaits), std::end(kOnWaits),
                        [&](const auto& row) { return row.waits_for == wait; })
        ->advice;
  }
  const auto last = std::end(kOnFailures) - 1;
  return std::find_if(std::begin(kOnFailures), last,
                      [&](const auto& row) { return row.failure == ToProto(connector.failure->status); })
      ->advice;
}

void FillFailure(const ConnectorFailure& failure, absl::Duration to_wall_clock, v1::ConnectorFailure* message) {
  *message->mutable_time() = ToMessage(failure.at + to_wall_clock);
  message->set_status(ToProto(failure.status));
  message->set_provider_error(failure.provider_error);
  std::string hint = failure.hint;
  if (IsOfDataPath(failure.provider_error)) {
    absl::StrAppend(&hint, ": ", ConnectionEndText(failure.status, failure.provider_error));
  }
  v1::Outcome outcome;  // With the contract's limit on hints.
  ToProto(Outcome{.status = failure.status, .hint = std::move(hint)}, &outcome);
  message->set_hint(outcome.hint());
}

}  // namespace

std::vector<WaitAdvice> AdviceOnWaits() { return {std::begin(kOnWaits), std::end(kOnWaits)}; }
std::vector<FailureAdvice> AdviceOnFailures() { return {std::begin(kOnFailures), std::end(kOnFailures)}; }

v1::ConnectorWait WaitOf(const Records& records, const ConnectorRecord& connector) {
  const v1::ConnectorWait wait = WaitByState(connector);
  const auto session = records.sessions.find(connector.session);
  const bool away = session != records.sessions.end() && !session->second.stream && !session->second.ended;
  return away && IsTheClients(wait) ? v1::CONNECTOR_WAIT_CLIENT_RETURN : wait;
}

void Explain(const Records& records, const Index& index, const View& view, const ConnectorRecord& connector,
             absl::Duration to_wall_clock, v1::ExplainConnectorReply* reply) {
  Fill(records, connector, reply->mutable_connector());
  FillIfThere(records, view, records.sessions, connector.session, [&] { return reply->mutable_session(); });
  const DeviceRecord& device = DeviceOf(records, connector);
  if (view.Shows(device)) Fill(index.states, device, view.ShowsActivity(), reply->mutable_adapter());
  FillIfThere(records, view, records.listeners, connector.listener, [&] { return reply->mutable_listener(); });
  FillIfThere(records, view, records.shared_endpoints, connector.shared_endpoint,
              [&] { return reply->mutable_shared_endpoint(); });
  FillIfThere(records, view, records.endpoints, connector.endpoint, [&] { return reply->mutable_endpoint(); });
  FillHolders(records, index.lists, view, connector, reply);
  if (connector.since != absl::InfinitePast()) *reply->mutable_since() = ToMessage(connector.since + to_wall_clock);
  const v1::ConnectorWait wait = WaitOf(records, connector);
  reply->set_waits_for(wait);
  const auto session = records.sessions.find(connector.session);
  if (session != records.sessions.end()) {
    const Instant deadline = wait == v1::CONNECTOR_WAIT_CLIENT_RETURN ? session->second.deadline : connector.deadline;
    if (deadline != absl::InfiniteFuture()) *reply->mutable_deadline() = ToMessage(deadline + to_wall_clock);
    reply->set_event_unacknowledged(!session->second.ended && connector.last_event > session->second.acknowledged);
  }
  if (connector.failure) FillFailure(*connector.failure, to_wall_clock, reply->mutable_failure());
  reply->set_recovered(connector.recovered);
  reply->set_advice(AdviceFor(wait, connector, device.device));
}

}  // namespace rdmabroker
