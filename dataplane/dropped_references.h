// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_DROPPED_REFERENCES_H_
#define DATAPLANE_DROPPED_REFERENCES_H_

#include "dataplane/data_object.h"

namespace rdmabroker {

// References that were found to be over under a lock, and that must not go there: the last one may complete a close.
// Needs no memory. Not thread-safe.
class DroppedReferences {
 public:
  DroppedReferences() = default;
  DroppedReferences(const DroppedReferences&) = delete;
  DroppedReferences& operator=(const DroppedReferences&) = delete;
  // Gives back those that are the last of their objects, with none of the data plane's locks held.
  ~DroppedReferences() {
    if (first_ != nullptr) GiveBack();
  }

  // Under any locks. There must be one.
  template <typename Object>
  void Add(ObjectReference<Object> reference) {
    Drop(reference.Release());
  }

 private:
  void Drop(DataObject* object);
  void GiveBack();

  DataObject* first_ = nullptr;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_DROPPED_REFERENCES_H_
