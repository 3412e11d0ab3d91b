// SPDX-License-Identifier: Apache-2.0

#include "broker/control/handoff_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "broker/control/translation.h"
#include "broker/core/secrets.h"
#include "broker/log/log.h"
#include "broker/runtime/descriptor_message.h"
#include "proto/rdmabroker/v1/handoff.pb.h"

namespace rdmabroker {
namespace {

// handoff.proto: the longest record that a client sends.
constexpr size_t kMaxRecord = 256;
// Taking a connection takes as long as this many requests.
constexpr int64_t kOfStart = 2;

bool SendReply(int socket, const v1::HandoffReply& reply, int transport) {
  return SendWithDescriptor(socket, reply.SerializeAsString(), transport, MSG_DONTWAIT);
}

}  // namespace

HandoffSocket::HandoffSocket(UniqueFd listener, const Broker& broker, HandoffTable& table, UserCosts& costs, Loop& loop,
                             Metrics& metrics, const Settings& settings)
    : broker_(broker),
      table_(table),
      costs_(costs),
      loop_(loop),
      metrics_(metrics),
      settings_(settings),
      acceptor_(std::move(listener), "handoff.sock", loop, [this](UniqueFd socket) { Take(std::move(socket)); }) {}

HandoffSocket::~HandoffSocket() {
  acceptor_.Stop();
  // Who has been sent a transport keeps it: the process ends, and the connection does not.
  for (const auto& [id, fetcher] : fetchers_) {
    loop_.Unwatch(fetcher.watch);
    loop_.CancelTimer(fetcher.patience);
  }
}

void HandoffSocket::Take(UniqueFd socket) {
  const std::optional<Identity> peer = PeerOf(socket.get());
  if (!peer) return;
  const uid_t uid = peer->uid;
  if (!rates_.Take(uid, Loop::Now()) || of_user_.of(uid) == settings_.fetchers_per_uid) {
    metrics_.CountRefusedCaller(CallerRefusal::kTooManyConnections);
    if (const auto left_out = too_many_.Pass(Loop::Now())) {
      LogWarning("hand-off refused", {{"uid", uid},
                                      {"pid", peer->pid},
                                      {"status", StatusName(NdkStatus::kInsufficientResources)},
                                      {"left_out", *left_out}});
    }
    return;
  }
  of_user_.Enter(uid);
  const uint64_t id = ++last_id_;
  Fetcher& fetcher = fetchers_[id];
  fetcher.account = costs_.Enter(uid, [this, id] { Drop(id); });
  fetcher.socket = std::move(socket);
  fetcher.peer = *peer;
  StartPatience(id);
  if (fetchers_.size() == settings_.fetchers) acceptor_.Pause();
  InTurn(id, &HandoffSocket::Watch);
}

void HandoffSocket::InTurn(uint64_t id, void (HandoffSocket::*act)(uint64_t id)) {
  fetchers_.at(id).account->InTurn([this, id, act] {
    if (fetchers_.contains(id)) (this->*act)(id);
  });
}

void HandoffSocket::Watch(uint64_t id) {
  Fetcher& fetcher = fetchers_.at(id);
  fetcher.account->Charge(kOfStart);
  fetcher.watch = loop_.Watch(fetcher.socket.get(), EPOLLIN | EPOLLRDHUP,
                              [this, id](uint32_t) { InTurn(id, &HandoffSocket::Hear); });
}

void HandoffSocket::Hear(uint64_t id) {
  Fetcher& fetcher = fetchers_.at(id);
  fetcher.account->Charge(1);
  char buffer[kMaxRecord];
  iovec part = {buffer, sizeof buffer};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  const ssize_t length = ::recvmsg(fetcher.socket.get(), &message, MSG_DONTWAIT);
  if (length < 0 && errno == EAGAIN) return loop_.Rearm(fetcher.watch, EPOLLIN | EPOLLRDHUP);
  if (length <= 0) return Drop(id);
  const std::string record(buffer, (message.msg_flags & MSG_TRUNC) != 0 ? 0 : static_cast<size_t>(length));
  if (!fetcher.sent) return Answer(id, record);
  v1::HandoffAcknowledgement acknowledgement;
  if (acknowledgement.ParseFromString(record) && acknowledgement.connector_id() == fetcher.connector.value()) {
    table_.Settle(std::exchange(fetcher.sent, ConnectionId()), true);
  }
  Drop(id);
}

Handoff* HandoffSocket::Authorise(const Fetcher& fetcher, const std::string& record, Outcome* outcome,
                                  ConnectionId* connection, ConnectorId* connector) const {
  v1::HandoffRequest request;
  SessionSecret session_secret = {};
  HandoffSecret handoff_secret = {};
  if (record.empty() || !request.ParseFromString(record) ||
      !SecretFromBytes(request.session_secret(), &session_secret) ||
      !SecretFromBytes(request.handoff_secret(), &handoff_secret)) {
    *outcome = {.status = NdkStatus::kInvalidParameter,
                .hint = "record: not a HandoffRequest with two secrets of 16 bytes"};
    return nullptr;
  }
  // One answer for everything that is wrong, so that nothing can be found out by trying.
  *outcome = {.status = NdkStatus::kAccessDenied,
              .hint =
                  "request: there is no such session or connector, a secret is wrong, the transport is on its way "
                  "to another, or the user or the process is not the session's"};
  const Records& records = broker_.core().records();
  const auto session = records.sessions.find(SessionId(request.session_id()));
  if (session == records.sessions.end() || session->second.ended) return nullptr;
  const Identity& owner = session->second.identity;
  if (!SecretsEqual(session->second.secret, session_secret) || owner.uid != fetcher.peer.uid) return nullptr;
  if (owner.pid != 0 && owner.pid != fetcher.peer.pid) return nullptr;
  const auto found = records.connectors.find(ConnectorId(request.connector_id()));
  if (found == records.connectors.end() || found->second.session != session->first) return nullptr;
  Handoff* handoff = table_.Find(found->second.connection);
  if (handoff == nullptr) {
    // The connector is the caller's own, so this tells it nothing that its events do not.
    *outcome = {.status = NdkStatus::kConnectionAborted,
                .hint =
                    "connector: there is no transport for it: its connection has ended, or it was sent before; "
                    "connect again"};
    return nullptr;
  }
  if (handoff->sent || !SecretsEqual(handoff->secret, handoff_secret)) return nullptr;
  *connection = found->second.connection;
  *connector = found->first;
  return handoff;
}

void HandoffSocket::Answer(uint64_t id, const std::string& record) {
  Fetcher& fetcher = fetchers_.at(id);
  const int fd = fetcher.socket.get();
  Outcome outcome;
  ConnectionId connection;
  v1::HandoffReply reply;
  Handoff* handoff = Authorise(fetcher, record, &outcome, &connection, &fetcher.connector);
  if (handoff == nullptr) {
    metrics_.CountRefusedCaller(CallerRefusal::kHandOff);
    if (const auto left_out = denied_.Pass(Loop::Now())) {
      LogWarning("hand-off refused", {{"uid", fetcher.peer.uid},
                                      {"pid", fetcher.peer.pid},
                                      {"status", StatusName(outcome.status)},
                                      {"left_out", *left_out}});
    }
    ToProto(outcome, reply.mutable_outcome());
    SendReply(fd, reply, -1);
    return Drop(id);
  }
  ToProto(Outcome{}, reply.mutable_outcome());
  reply.set_connection_state(handoff->state);
  if (handoff->on_sending) handoff->on_sending(true);
  if (!SendReply(fd, reply, handoff->socket.get())) {
    if (handoff->on_sending) handoff->on_sending(false);
    return Drop(id);
  }
  handoff->sent = true;
  fetcher.sent = connection;
  loop_.Rearm(fetcher.watch, EPOLLIN | EPOLLRDHUP);
}

void HandoffSocket::StartPatience(uint64_t id) {
  fetchers_.at(id).patience = loop_.StartTimer(Loop::Now() + settings_.patience, [this, id] { LosePatience(id); });
}

// A client may be stopped before it acknowledges: how long it has for that the core decides, by its own deadline.
void HandoffSocket::LosePatience(uint64_t id) {
  const Fetcher& fetcher = fetchers_.at(id);
  if (fetcher.sent && table_.Find(fetcher.sent) != nullptr) return StartPatience(id);
  Drop(id);
}

void HandoffSocket::Drop(uint64_t id) {
  const auto found = fetchers_.find(id);
  if (found == fetchers_.end()) return;
  loop_.Close(found->second.watch, std::move(found->second.socket));
  loop_.CancelTimer(found->second.patience);
  const ConnectionId lost = found->second.sent;
  of_user_.Leave(found->second.peer.uid);
  fetchers_.erase(found);
  if (lost) table_.Settle(lost, false);
  acceptor_.Resume();
}

}  // namespace rdmabroker
