// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_TIMED_H_
#define DATAPLANE_IWARP_TIMED_H_

#include "dataplane/data_object.h"

namespace rdmabroker::iwarp {

// What may ask the progress thread to be called at a time (ProgressThread::SetTimer).
class Timed {
 public:
  // On the progress thread, with a reference to object() held.
  virtual void OnTimer() = 0;
  virtual DataObject& object() = 0;

 protected:
  ~Timed() = default;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_TIMED_H_
