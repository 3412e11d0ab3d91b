// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_DISCONNECT_EVENTS_H_
#define TESTS_SURVIVE_DISCONNECT_EVENTS_H_

#include <mutex>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/values.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// What the consumer of a connection is told of its end. It outlives the connector.
class DisconnectEvents {
 public:
  client::DisconnectEventCallback Note() {
    return [this](const client::DisconnectEvent& event) {
      const std::lock_guard lock(mutex_);
      statuses_.push_back(event.status);
      last_ = absl::Now();
    };
  }
  std::vector<NdkStatus> Statuses() const {
    const std::lock_guard lock(mutex_);
    return statuses_;
  }
  size_t count() const { return Statuses().size(); }
  // When the last one came.
  absl::Time last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<NdkStatus> statuses_;  // Guarded by mutex_, as what follows.
  absl::Time last_;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_DISCONNECT_EVENTS_H_
