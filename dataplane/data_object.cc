// SPDX-License-Identifier: Apache-2.0

#include "dataplane/data_object.h"

#include "dataplane/forked_child.h"

namespace rdmabroker {

NdkStatus DataObject::Close(CloseCompletion completion) {
  if (IsForkedChild()) return NdkStatus::kSuccess;
  OnClose();
  close_completion_ = std::move(completion);
  // Whoever drops the last reference after this one calls the completion.
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return NdkStatus::kPending;
  Dismantle();
  delete this;
  return NdkStatus::kSuccess;
}

void DataObject::ReleaseReference() {
  if (IsForkedChild()) return;
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Dismantle();
  if (close_completion_) close_completion_();
  delete this;
}

}  // namespace rdmabroker
