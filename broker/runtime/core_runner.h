// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_CORE_RUNNER_H_
#define BROKER_RUNTIME_CORE_RUNNER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/fabric/fabric.h"
#include "broker/runtime/watcher.h"

namespace rdmabroker {

// Runs the core: takes events one at a time, carries its effects out in order, keeps its timer. Loop thread only.
class CoreRunner {
 public:
  // Takes the effects that are not a fabric's. Must not call Run.
  using EffectSink = std::function<void(const Effect&)>;

  CoreRunner(const Limits& limits, Watcher& watcher, EffectSink sink);
  CoreRunner(const CoreRunner&) = delete;
  CoreRunner& operator=(const CoreRunner&) = delete;

  // Starts the fabric; requests for the devices that it reports go to it.
  void Add(std::unique_ptr<Fabric> fabric);

  // Handles `event` and carries out all that follows at once, reports that a fabric makes meanwhile included.
  void Run(const Event& event);

  const BrokerCore& core() const { return core_; }

 private:
  // Waits behind whatever is being handled.
  void Report(Fabric* fabric, FabricReport report);
  void Drain();
  void HandleOne(const Event& event);
  void Perform(const FabricRequest& request);

  Watcher& watcher_;
  EffectSink sink_;
  BrokerCore core_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::map<DeviceId, Fabric*> fabric_of_device_;
  // Bounded by the fabrics: each object they hold has at most one report under way for each request and state.
  std::deque<Event> waiting_;
  bool running_ = false;
  Instant deadline_ = absl::InfiniteFuture();  // That the timer waits for.
  TimerId timer_ = TimerId::kNone;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_CORE_RUNNER_H_
