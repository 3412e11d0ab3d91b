// SPDX-License-Identifier: Apache-2.0

#include "dataplane/pending_call.h"

#include <utility>

namespace rdmabroker {

void PendingCalls::Add(PendingCall* call) {
  call->object_->AddReference();
  LetGo(call);
}

void PendingCalls::LetGo(PendingCall* call) {
  ++call->references_;
  if (call->waiting_) return;
  call->waiting_ = true;
  call->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = call;
  last_ = call;
  ++size_;
}

PendingCalls::Taken PendingCalls::Take() {
  PendingCall* const call = first_;
  first_ = call->next_;
  --size_;
  call->waiting_ = false;
  return {call, std::exchange(call->references_, 0)};
}

void PendingCalls::Taken::Run() const {
  DataObject* const object = call_->object_;
  if (call_->run_) call_->run_();
  for (uint32_t i = 0; i < references_; ++i) object->ReleaseReference();
}

}  // namespace rdmabroker
