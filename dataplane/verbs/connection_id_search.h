// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_CONNECTION_ID_SEARCH_H_
#define DATAPLANE_VERBS_CONNECTION_ID_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/verbs/device/connection_ids.h"

namespace rdmabroker::verbs {

// Which of the connection manager's ids joins a queue pair to its peer. Nothing is known of one that is not shown, as
// in a pid namespace that is not its maker's, or of one of several that have had the queue pair's number. Not
// thread-safe.
class ConnectionIdSearch {
 public:
  bool GoesOn() const { return !number_.has_value() && looks_ < kMostLooks; }
  // FindConnectionIds' answer. One that says nothing leaves the search as it is.
  void Take(const std::optional<std::vector<ConnectionId>>& shown, uint32_t queue_pair) {
    if (!shown) return;
    ++looks_;
    std::optional<uint32_t> only;
    for (const ConnectionId& id : *shown) {
      if (id.queue_pair != queue_pair) continue;
      if (only) return;
      only = id.number;
    }
    number_ = only;
  }
  // Of the id, once it is found.
  std::optional<uint32_t> number() const { return number_; }

 private:
  // Lists of all of the device, of which one in eighty leaves out the one that is looked for.
  static constexpr int kMostLooks = 3;

  int looks_ = 0;
  std::optional<uint32_t> number_;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_CONNECTION_ID_SEARCH_H_
