// SPDX-License-Identifier: Apache-2.0

#include "dataplane/dropped_references.h"

#include <utility>

namespace rdmabroker {

void DroppedReferences::GiveBack() {
  while (first_ != nullptr) {
    // The object may be gone afterwards.
    DataObject* const object = std::exchange(first_, first_->next_dropped_);
    object->ReleaseReference();
  }
}

// One that is not the last goes at once. Whoever has the last one has the object alone: its consumer has closed it, and
// a reference is only ever copied from another.
void DroppedReferences::Drop(DataObject* object) {
  uint32_t references = object->references_.load(std::memory_order_relaxed);
  while (references > 1) {
    if (object->references_.compare_exchange_weak(references, references - 1, std::memory_order_acq_rel)) return;
  }
  object->next_dropped_ = std::exchange(first_, object);
}

}  // namespace rdmabroker
