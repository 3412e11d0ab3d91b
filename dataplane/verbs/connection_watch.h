// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_CONNECTION_WATCH_H_
#define DATAPLANE_VERBS_CONNECTION_WATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/verbs/device/connection_ids.h"

namespace rdmabroker::verbs {

// Whether the connection manager still has a queue pair's connection. Not thread-safe.
class ConnectionWatch {
 public:
  // Looks for it until it is found. Nothing is known of one that is not shown, as in a pid namespace that is not its
  // maker's, or of one of several that have had the queue pair's number.
  void Look(uint32_t device_index, uint32_t queue_pair) {
    if (number_.has_value() || looks_ == kMostLooks) return;
    ++looks_;
    device_index_ = device_index;
    std::vector<ConnectionId> ids = FindConnectionIds(device_index);
    std::erase_if(ids, [&](const ConnectionId& id) { return id.queue_pair != queue_pair; });
    if (ids.size() == 1) number_ = ids.front().number;
  }
  bool IsOver() const { return number_.has_value() && !IsConnectionIdShown(device_index_, *number_); }

 private:
  // Each lists all of the device; one in eighty leaves out the one that is looked for.
  static constexpr int kMostLooks = 3;

  int looks_ = 0;
  uint32_t device_index_ = 0;
  std::optional<uint32_t> number_;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_CONNECTION_WATCH_H_
