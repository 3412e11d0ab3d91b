// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_UNFINISHED_H_
#define DATAPLANE_VERBS_UNFINISHED_H_

#include <memory>

#include "dataplane/data_object.h"

namespace rdmabroker::verbs {

struct Closer {
  void operator()(DataObject* object) const { object->Close({}); }
};

// Has a new object make its hardware's, and closes it where that fails or throws.
template <typename Interface, typename Object>
Created<Interface> Finish(Object* made) {
  std::unique_ptr<Object, Closer> unfinished(made);
  const NdkStatus status = made->Make();
  if (status != NdkStatus::kSuccess) return {status};
  return {status, unfinished.release()};
}

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_UNFINISHED_H_
