// SPDX-License-Identifier: Apache-2.0

#include "client/broker_object.h"

#include <algorithm>
#include <utility>

#include "client/broker_link.h"
#include "client/object_requests.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {

BrokerObject::BrokerObject(std::shared_ptr<BrokerLink> link, ObjectKind kind)
    : link_(std::move(link)), key_{.kind = kind}, reserved_(std::make_unique<ReservedClose>()) {
  reserved_->close.emplace_back([this] {
    const auto self = std::exchange(reserved_->closing, nullptr);
    StartClose(std::move(reserved_->close_completion));
  });
}

BrokerObject::~BrokerObject() {
  if (IsForkedChild()) Leak(link_);
}

NdkStatus BrokerObject::Post(std::function<void()> work) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(posting_mutex_);
  if (close_called_) return RefuseClosed();
  return link_->Post(std::move(work));
}

bool BrokerObject::IsOfThisSession(const BrokerObject* object) const {
  return object != nullptr && object->link_ == link_;
}

NdkStatus BrokerObject::RefuseForeign(const char* name) {
  return Refuse(NdkStatus::kInvalidParameter, "%s: missing, or another session's", name);
}

NdkStatus BrokerObject::RefuseClosed() const {
  return Refuse(NdkStatus::kInvalidDeviceState, "object %d: its close has been called", id());
}

NdkStatus BrokerObject::OnSessionEnd(std::function<void(NdkStatus)> on_end) {
  return CatchExceptions([&] {
    const NdkStatus posted = PostUntilClose([self = shared_from_this(), on_end = std::move(on_end)]() mutable {
      if (self->closing()) return;
      self->on_session_end_ = std::move(on_end);
      if (const NdkStatus over = self->link_->over(); over != NdkStatus::kSuccess) self->TellSessionEnd(over);
    });
    return posted == NdkStatus::kPending ? NdkStatus::kSuccess : posted;
  });
}

void BrokerObject::TellSessionEnd(NdkStatus status) {
  const auto on_end = std::exchange(on_session_end_, nullptr);
  if (on_end != nullptr && !closing()) on_end(status);
}

NdkStatus BrokerObject::PostUntilClose(std::function<void()> work) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(posting_mutex_);
  if (close_called_) return RefuseClosed();
  return link_->PostUntilClose(std::move(work));
}

NdkStatus BrokerObject::Close(CloseCompletion completion) {
  if (IsForkedChild()) return NdkStatus::kSuccess;
  const std::shared_ptr<BrokerObject> self = shared_from_this();
  const std::lock_guard lock(posting_mutex_);
  if (close_called_.exchange(true)) return NdkStatus::kSuccess;
  reserved_->close_completion.swap(completion);
  reserved_->closing = self;
  if (link_->PostReserved(std::move(reserved_->close))) return NdkStatus::kPending;
  // What the consumer's completion holds must not end under the lock: it ends with the parameter.
  reserved_->close_completion.swap(completion);
  reserved_->closing = nullptr;
  return NdkStatus::kSuccess;
}

bool BrokerObject::Adopt(uint64_t id, std::vector<std::shared_ptr<BrokerObject>> antecedents) {
  key_.id = id;
  if (id == 0 || !link_->Register(key_, shared_from_this())) {
    key_.id = 0;
    return false;
  }
  for (auto& antecedent : antecedents) AddAntecedent(std::move(antecedent));
  return true;
}

void BrokerObject::AddAntecedent(std::shared_ptr<BrokerObject> antecedent) {
  ++antecedent->successors_;
  antecedents_.push_back(std::move(antecedent));
}

void BrokerObject::RemoveAntecedent(const std::shared_ptr<BrokerObject>& antecedent) {
  const auto found = std::find(antecedents_.begin(), antecedents_.end(), antecedent);
  if (found == antecedents_.end()) return;
  antecedents_.erase(found);
  --antecedent->successors_;
  antecedent->MaybeFinish();
}

void BrokerObject::Release() {
  --unfinished_;
  MaybeFinish();
}

void BrokerObject::StartClose(CloseCompletion completion) {
  if (finished_) {  // Its session was closed meanwhile.
    if (completion) completion();
    return;
  }
  closing_ = true;
  close_completion_ = std::move(completion);
  OnClosing();
  SubmitClose([self = shared_from_this()](const Outcome&, const v1::Outcome&) {
    self->broker_closed_ = true;  // Closes do not fail; where the session is over, everything is closed.
    self->MaybeFinish();
  });
}

void BrokerObject::MaybeFinish() {
  if (!closing_ || finished_ || !broker_closed_ || unfinished_ > 0 || successors_ > 0 || !ReadyToFinish()) return;
  Finish();
}

void BrokerObject::ForceFinish() {
  if (finished_) return;
  if (!std::exchange(closing_, true)) OnClosing();
  EndLocalRequests();
  // Who closes it from here on is told that it is closed.
  close_called_ = true;
  Finish();
}

void BrokerObject::Finish() {
  const std::shared_ptr<BrokerObject> self = shared_from_this();
  finished_ = true;
  if (key_.id != 0) link_->Unregister(key_);
  if (const CloseCompletion completion = std::exchange(close_completion_, nullptr); completion) completion();
  on_session_end_ = nullptr;
  OnFinished();
  for (const auto& antecedent : std::exchange(antecedents_, {})) {
    --antecedent->successors_;
    antecedent->MaybeFinish();
  }
}

}  // namespace rdmabroker::client
