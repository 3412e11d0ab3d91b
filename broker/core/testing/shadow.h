// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_SHADOW_H_
#define BROKER_CORE_TESTING_SHADOW_H_

#include "absl/status/status.h"
#include "broker/core/broker_core.h"
#include "broker/core/changes.h"

namespace rdmabroker {

// A core's records as somebody keeps them who looks at its changes alone.
class Shadow {
 public:
  // From here on `core`'s changes are the shadow's to take.
  explicit Shadow(BrokerCore& core) { Adopt(core); }

  // The core goes on as this one.
  void Adopt(BrokerCore& core) {
    (void)core.TakeChanges();
    records_ = core.records();
  }

  // Takes over what has changed. INTERNAL, naming a record that has and is not among that.
  absl::Status Follow(BrokerCore& core);

  // What the last Follow was told.
  const Changes& changes() const { return changes_; }

 private:
  Records records_;
  Changes changes_;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_SHADOW_H_
