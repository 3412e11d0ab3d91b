// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_WATCH_SERVICE_H_
#define BROKER_CONTROL_WATCH_SERVICE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/broker.h"
#include "broker/control/open_calls.h"
#include "broker/control/unary_call.h"
#include "broker/runtime/warning_limit.h"
#include "broker/runtime/watcher.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"

namespace rdmabroker {

// Inspection.Watch: streams of rows. The core's changes are noted for it only while somebody watches. Loop thread only.
class WatchService {
 public:
  // A person has a few terminals, and a node a monitor or two. Each watch takes up to a MiB of changed ids, 24 bytes
  // for each row that it has told, and the loop's time for ten messages a second.
  static constexpr CallBounds kBounds = {.of_caller = 8, .of_users = 24, .in_all = 32};

  // `patience`: how long a watch may leave a message unread.
  WatchService(UnaryContext& context, Watcher& watcher, Broker& broker, v1::Inspection::AsyncService& service,
               absl::Duration patience);
  WatchService(const WatchService&) = delete;
  WatchService& operator=(const WatchService&) = delete;

  // The configuration has changed: ends every watch, as its caller may have other rights now.
  void Apply(absl::Duration patience);
  // Ends every watch and serves none any more.
  void Stop();

 private:
  class Watch;

  void Serve();
  void Begin(const std::shared_ptr<Watch>& watch);
  // Why there is to be no watch more.
  [[nodiscard]] std::optional<Outcome> RefuseTo(const Caller* caller) const;
  void Note(const Changes& changes);
  void Forget(const Watch& watch);

  UnaryContext& context_;
  Watcher& watcher_;
  Broker& broker_;
  v1::Inspection::AsyncService& service_;
  absl::Duration patience_;
  std::vector<std::shared_ptr<Watch>> watches_;
  OpenCalls open_{"watch", kBounds};  // Those.
  bool stopping_ = false;
  WarningLimit unread_;  // Of watches that end since nobody reads.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_WATCH_SERVICE_H_
