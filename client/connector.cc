// SPDX-License-Identifier: Apache-2.0

#include "client/connector.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/adapter.h"
#include "client/handoff.h"
#include "client/listener.h"
#include "client/object_requests.h"
#include "client/qp_numbers.h"
#include "client/shared_endpoint.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {
namespace {

constexpr char kKnown[] = "one of whose connection something is known";

NdkStatus CheckPrivateData(const std::string& data, uint32_t most, const char* limit) {
  if (data.size() <= most) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidBufferSize,
                "private_data: %d bytes; this adapter carries at most %d (AdapterInfo::%s)", data.size(), most, limit);
}

// After which of its failures Accept leaves the connector as it was (broker.proto).
bool LeavesUndecided(NdkStatus status) {
  return status == NdkStatus::kConnectionActive || status == NdkStatus::kInvalidBufferSize ||
         status == NdkStatus::kAccessDenied || status == NdkStatus::kInvalidParameter;
}

}  // namespace

Connector::Connector(std::shared_ptr<BrokerLink> link, std::shared_ptr<Adapter> adapter, bool delivered)
    : BrokerObject(std::move(link), ObjectKind::kConnector),
      adapter_(std::move(adapter)),
      delivered_(delivered),
      phase_(delivered ? Phase::kRequested : Phase::kIdle) {}

Connector::~Connector() = default;

std::shared_ptr<Connector> Connector::Delivered(const std::shared_ptr<Adapter>& adapter,
                                                const std::shared_ptr<Listener>& listener,
                                                const v1::ConnectEvent& event, const ConnectionData& data) {
  std::shared_ptr<Connector> connector(new Connector(adapter->link().shared_from_this(), adapter, true));
  connector->data_ = std::make_shared<const ConnectionData>(data);
  connector->transitions_.assign(event.data().qp_attributes().begin(), event.data().qp_attributes().end());
  return connector->Adopt(event.connector_id(), {listener, adapter}) ? connector : nullptr;
}

bool Connector::Enter(Phase from, Phase to) {
  const std::lock_guard lock(mutex_);
  if (phase_ != from) return false;
  phase_ = to;
  return true;
}

NdkStatus Connector::RefuseStep(const char* wanted) const {
  return Refuse(NdkStatus::kConnectionInvalid, "connector %d: it is not %s", id(), wanted);
}

NdkStatus Connector::EnterConnecting() {
  if (delivered_) {
    return Refuse(NdkStatus::kInvalidDeviceState, "connector %d: a listener has delivered it; accept or reject it",
                  id());
  }
  const std::lock_guard lock(mutex_);
  switch (phase_) {
    case Phase::kIdle:
      phase_ = Phase::kConnecting;
      data_.reset();
      return NdkStatus::kPending;
    case Phase::kPeerEnded:
    case Phase::kDead:
      return Refuse(NdkStatus::kConnectionInvalid, "connector %d: its connection is over; make another one", id());
    default:
      return Refuse(NdkStatus::kConnectionActive, "connector %d: it connects, or is connected, already", id());
  }
}

NdkStatus Connector::EnterDisconnecting(Phase* before) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kDisconnecting) {
    return Refuse(NdkStatus::kInvalidDeviceState, "connector %d: its Disconnect is pending", id());
  }
  if (phase_ != Phase::kEstablished && phase_ != Phase::kPeerEnded) return RefuseStep("established");
  // Whoever is refused here stays established: in kDisconnecting the session's end would not be told.
  const NdkStatus over = link().over();
  if (over != NdkStatus::kSuccess && !EndsByItself()) {
    return Refuse(over, "connector %d: its session is over; close the connector", id());
  }
  *before = std::exchange(phase_, Phase::kDisconnecting);
  return NdkStatus::kPending;
}

NdkStatus Connector::PostOr(Phase back, std::function<void()> work) {
  const NdkStatus status = CatchExceptions([&] { return Post(std::move(work)); });
  if (status != NdkStatus::kPending) SetPhase(back);
  return status;
}

void Connector::SetPhase(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

Connector::Phase Connector::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

NdkStatus Connector::CheckQueuePair(const QueuePair* queue_pair, bool has_completion) const {
  if (queue_pair == nullptr || !has_completion) {
    return Refuse(NdkStatus::kInvalidParameter, "queue_pair, completion: one of them is missing");
  }
  if (queue_pair->adapter() == adapter_->data()) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidParameterMix, "queue_pair: another adapter's than connector %d", id());
}

NdkStatus Connector::CheckConnect(const QueuePair* queue_pair, const ConnectParameters& parameters,
                                  const OutcomeCompletion& completion) const {
  if (const auto fits = CheckQueuePair(queue_pair, bool{completion}); fits != NdkStatus::kSuccess) return fits;
  return CheckPrivateData(parameters.private_data, adapter_->info().max_caller_data, "max_caller_data");
}

template <typename Message>
Message Connector::ConnectMessage(const ConnectParameters& parameters) const {
  Message message;
  message.set_connector_id(id());
  message.set_qp_number(static_cast<uint32_t>(queue_pair_->number()));
  *message.mutable_destination() = ToMessage(parameters.destination);
  *message.mutable_limits() = ToMessage(parameters.limits);
  message.set_private_data(parameters.private_data);
  *message.mutable_options() = ToMessage(parameters.options);
  return message;
}

NdkStatus Connector::Connect(QueuePair* queue_pair, const ConnectParameters& parameters, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (const auto status = CheckConnect(queue_pair, parameters, completion); status != NdkStatus::kSuccess)
      return status;
    auto held = link().qp_numbers().Hold(queue_pair);
    std::function<void()> work = [self = Self(), held, parameters, completion = std::move(completion)] {
      self->queue_pair_ = held;
      self->UseEndpoint(nullptr);
      auto message = self->ConnectMessage<v1::ConnectRequest>(parameters);
      *message.mutable_source() = ToMessage(parameters.source);
      self->Submit(std::move(message),
                   [self = self.get(), completion](const Outcome& outcome, const v1::Outcome& reply) {
                     self->HandleConnected(outcome, reply, completion);
                   });
    };
    if (const auto status = EnterConnecting(); status != NdkStatus::kPending) return status;
    return PostOr(Phase::kIdle, std::move(work));
  });
}

NdkStatus Connector::ConnectWithSharedEndpoint(QueuePair* queue_pair, const std::shared_ptr<SharedEndpoint>& endpoint,
                                               const ConnectParameters& parameters, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (!IsOfThisSession(endpoint.get())) return RefuseForeign("endpoint");
    if (const auto status = CheckConnect(queue_pair, parameters, completion); status != NdkStatus::kSuccess)
      return status;
    auto held = link().qp_numbers().Hold(queue_pair);
    std::function<void()> work = [self = Self(), held, endpoint, parameters, completion = std::move(completion)] {
      self->queue_pair_ = held;
      self->UseEndpoint(endpoint);
      auto message = self->ConnectMessage<v1::ConnectWithSharedEndpointRequest>(parameters);
      message.set_shared_endpoint_id(endpoint->id());
      self->Submit(std::move(message),
                   [self = self.get(), completion](const Outcome& outcome, const v1::Outcome& reply) {
                     self->HandleConnected(outcome, reply, completion);
                   });
    };
    if (const auto status = EnterConnecting(); status != NdkStatus::kPending) return status;
    return PostOr(Phase::kIdle, std::move(work));
  });
}

void Connector::UseEndpoint(const std::shared_ptr<SharedEndpoint>& endpoint) {
  if (endpoint == endpoint_) return;
  const auto former = std::exchange(endpoint_, endpoint);
  if (endpoint != nullptr) AddAntecedent(endpoint);
  if (former != nullptr) RemoveAntecedent(former);
}

void Connector::HandleConnected(const Outcome& outcome, const v1::Outcome& reply, const OutcomeCompletion& completion) {
  Outcome result = outcome;
  const auto data = FromMessage(reply.connection_data());
  if (result.ok() && !data.has_value()) result = BrokenPromise("to Connect has no connection data");
  if (data.has_value()) {
    const auto& transitions = reply.connection_data().qp_attributes();
    transitions_.assign(transitions.begin(), transitions.end());
  }
  {
    const std::lock_guard lock(mutex_);
    data_ = data.has_value() ? std::make_shared<const ConnectionData>(*data) : nullptr;
    phase_ = result.ok() ? Phase::kReplied : Phase::kIdle;
  }
  completion(result);
}

NdkStatus Connector::CompleteConnect(DisconnectEventCallback on_disconnect, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (!completion) return RefuseWithoutCompletion();
    std::function<void()> work = [self = Self(), on_disconnect = std::move(on_disconnect),
                                  completion = std::move(completion)]() mutable {
      self->StartComplete(std::move(on_disconnect), completion);
    };
    if (!Enter(Phase::kReplied, Phase::kDeciding)) return RefuseStep("one whose peer has accepted");
    return PostOr(Phase::kReplied, std::move(work));
  });
}

void Connector::StartComplete(DisconnectEventCallback on_disconnect, const OutcomeCompletion& completion) {
  on_disconnect_ = std::move(on_disconnect);
  if (const NdkStatus status = ApplyTransitions(nullptr); status != NdkStatus::kSuccess) {
    SetPhase(Phase::kReplied);
    Hold();
    completion({.status = status, .hint = WithHint("the queue pair does not take the attributes of this connection")});
    return Release();
  }
  v1::CompleteConnectRequest request;
  request.set_connector_id(id());
  Submit(std::move(request), [this, completion](const Outcome& outcome, const v1::Outcome& reply) {
    HandleEstablished(outcome, reply, completion, false);
  });
}

NdkStatus Connector::Accept(QueuePair* queue_pair, const AcceptParameters& parameters,
                            DisconnectEventCallback on_disconnect, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (const auto fits = CheckQueuePair(queue_pair, bool{completion}); fits != NdkStatus::kSuccess) return fits;
    const auto carried = CheckPrivateData(parameters.private_data, adapter_->info().max_callee_data, "max_callee_data");
    if (carried != NdkStatus::kSuccess) return carried;
    auto held = link().qp_numbers().Hold(queue_pair);
    std::function<void()> work = [self = Self(), held, parameters, on_disconnect = std::move(on_disconnect),
                                  completion = std::move(completion)]() mutable {
      self->queue_pair_ = held;
      self->StartAccept(parameters, std::move(on_disconnect), completion);
    };
    if (!delivered_ || !Enter(Phase::kRequested, Phase::kDeciding)) return RefuseStep("one that waits to be accepted");
    return PostOr(Phase::kRequested, std::move(work));
  });
}

void Connector::StartAccept(const AcceptParameters& parameters, DisconnectEventCallback on_disconnect,
                            const OutcomeCompletion& completion) {
  on_disconnect_ = std::move(on_disconnect);
  if (const NdkStatus status = ApplyTransitions(&parameters.limits); status != NdkStatus::kSuccess) {
    SetPhase(Phase::kRequested);
    Hold();
    completion({.status = status, .hint = WithHint("the queue pair does not take the attributes of this connection")});
    return Release();
  }
  v1::AcceptRequest request;
  request.set_connector_id(id());
  request.set_qp_number(static_cast<uint32_t>(queue_pair_->number()));
  *request.mutable_limits() = ToMessage(parameters.limits);
  request.set_private_data(parameters.private_data);
  *request.mutable_options() = ToMessage(parameters.options);
  Submit(std::move(request), [this, completion](const Outcome& outcome, const v1::Outcome& reply) {
    HandleEstablished(outcome, reply, completion, true);
  });
}

void Connector::HandleEstablished(const Outcome& outcome, const v1::Outcome& reply, const OutcomeCompletion& completion,
                                  bool accepting) {
  const ReadLimits limits = FromMessage(reply.connection_established().limits());
  const auto finish = [this, limits, completion, accepting](const Outcome& result) {
    FinishEstablished(result, limits, completion, accepting);
  };
  if (!outcome.ok()) return finish(outcome);
  if (closing()) return finish({.status = NdkStatus::kCancelled, .hint = "the connector was closed meanwhile"});
  if (!reply.has_connection_established()) {
    return finish(BrokenPromise("does not say that the connection is established"));
  }
  TakeOver(reply.connection_established(), finish);
}

void Connector::FinishEstablished(const Outcome& outcome, const ReadLimits& limits, const OutcomeCompletion& completion,
                                  bool accepting) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome.ok()) {
      phase_ = Phase::kEstablished;
      if (data_ != nullptr) {
        ConnectionData lowered = *data_;
        lowered.limits = limits;
        data_ = std::make_shared<const ConnectionData>(std::move(lowered));
      }
    } else {
      phase_ = accepting && LeavesUndecided(outcome.status) ? Phase::kRequested : Phase::kDead;
    }
  }
  completion(outcome);
  if (const auto event = std::exchange(held_event_, std::nullopt); event.has_value()) HandleDisconnectEvent(*event);
}

NdkStatus Connector::Reject(const std::string& private_data, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    const auto carried = CheckPrivateData(private_data, adapter_->info().max_callee_data, "max_callee_data");
    if (carried != NdkStatus::kSuccess) return carried;
    const bool told = completion != nullptr;
    std::function<void()> work = [self = Self(), private_data, completion = std::move(completion)] {
      v1::RejectRequest request;
      request.set_connector_id(self->id());
      request.set_private_data(private_data);
      self->Submit(std::move(request), [completion](const Outcome& outcome, const v1::Outcome&) {
        if (completion) completion(outcome);
      });
    };
    const Phase before = delivered_ ? Phase::kRequested : Phase::kReplied;
    if (!Enter(before, Phase::kDead)) return RefuseStep("one whose peer waits to be accepted or rejected");
    const NdkStatus posted = PostOr(before, std::move(work));
    return posted == NdkStatus::kPending && !told ? NdkStatus::kSuccess : posted;
  });
}

NdkStatus Connector::GetConnectionData(uint32_t* inbound_read_limit, uint32_t* outbound_read_limit, void* private_data,
                                       uint32_t* private_data_length) const {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    const bool has_room = private_data_length != nullptr && *private_data_length > 0;
    if ((private_data == nullptr && has_room) || (private_data != nullptr && private_data_length == nullptr)) {
      return Refuse(NdkStatus::kInvalidParameter, "private_data, private_data_length: one of them is missing");
    }
    const auto data = connection_data();
    if (data == nullptr) return RefuseStep(kKnown);
    if (inbound_read_limit != nullptr) *inbound_read_limit = data->limits.inbound;
    if (outbound_read_limit != nullptr) *outbound_read_limit = data->limits.outbound;
    if (private_data_length == nullptr) return NdkStatus::kSuccess;
    const auto needed = static_cast<uint32_t>(data->private_data.size());
    const uint32_t room = std::exchange(*private_data_length, needed);
    if (private_data == nullptr) return NdkStatus::kSuccess;
    std::memcpy(private_data, data->private_data.data(), std::min(room, needed));
    if (room >= needed) return NdkStatus::kSuccess;
    return Refuse(NdkStatus::kBufferTooSmall, "private_data_length: %d bytes; there are %d", room, needed);
  });
}

NdkStatus Connector::GetLocalAddress(sockaddr* address, uint32_t* length) const {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    const auto data = connection_data();
    return data != nullptr ? CopyAddress(data->local, address, length) : RefuseStep(kKnown);
  });
}

NdkStatus Connector::GetPeerAddress(sockaddr* address, uint32_t* length) const {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    const auto data = connection_data();
    return data != nullptr ? CopyAddress(data->peer, address, length) : RefuseStep(kKnown);
  });
}

std::shared_ptr<const ConnectionData> Connector::connection_data() const {
  if (IsForkedChild()) return nullptr;
  const std::lock_guard lock(mutex_);
  return data_;
}

}  // namespace rdmabroker::client
