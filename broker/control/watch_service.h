// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_WATCH_SERVICE_H_
#define BROKER_CONTROL_WATCH_SERVICE_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/broker.h"
#include "broker/control/open_calls.h"
#include "broker/control/services.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker {

// Inspection.Watch: streams of rows. The core's changes are noted for it only while somebody watches. Loop thread only.
class WatchService {
 public:
  // A person has a few terminals, and a node a monitor or two. Each watch takes up to a MiB of changed ids, 24 bytes
  // for each row that it has told, and the loop's time for ten messages a second.
  static constexpr CallBounds kBounds = {.of_caller = 8, .of_users = 24, .in_all = 32};

  // `patience`: how long a watch may leave a message unread. All must outlive the services.
  WatchService(Services& services, Loop& loop, Broker& broker, const absl::Duration& patience);
  WatchService(const WatchService&) = delete;
  WatchService& operator=(const WatchService&) = delete;

  // The configuration has changed: ends every watch, as its caller may have other rights now.
  void EndAll();
  // Ends every watch and serves none any more.
  void Stop();

 private:
  class Watch;

  void Begin(const BegunCall& call);
  // Why there is to be no watch more.
  [[nodiscard]] std::optional<Outcome> RefuseTo(const Caller& caller, const v1::WatchRequest& request) const;
  void Note(const Changes& changes);
  void Forget(const Watch& watch);
  void FinishAll(const Outcome& outcome);

  Loop& loop_;
  Broker& broker_;
  const absl::Duration& patience_;
  std::vector<Watch*> watches_;
  OpenCalls open_{"watch", kBounds};  // Those.
  bool stopping_ = false;
  WarningLimit unread_;  // Of watches that end since nobody reads.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_WATCH_SERVICE_H_
