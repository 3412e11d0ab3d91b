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
#include "broker/runtime/loop.h"

namespace rdmabroker {

// Runs the core: takes the events of one turn of the loop, has what they changed stored, carries the core's effects out
// in order, keeps its timer. Loop thread only.
class CoreRunner {
 public:
  // Completes an event with what is only known when its turn comes. Must not call Run.
  using Preparer = std::function<void(Event&)>;

  // Takes an effect that is not a fabric's, and the event that has led to it. Must not call Run.
  using EffectSink = std::function<void(const Event& cause, const Effect&)>;
  // Stores what has changed since the last time, where it outlives the process; often nothing has. False: it could not,
  // and is to be called again in a while, and not before, as that costs most where it fails. Must not call Run.
  using Commit = std::function<bool(BrokerCore&)>;

  // Is shown what the core has made of each event, at the time that the core was told, before it is stored. Must not
  // call Run.
  using Observer = std::function<void(Instant now, const Event&, const Effects&)>;

  // Is told what events have changed, once they and what followed from them have been dealt with. Must not call Run.
  using ChangeFollower = std::function<void(const Changes&)>;

  // `commit` is called after the events that wait have been handled and before their effects are carried out, and once
  // more after those of the last.
  // `loop` outlives it, and runs no turn after its end.
  CoreRunner(BrokerCore core, Loop& loop, EffectSink sink, Commit commit, Observer observer = nullptr,
             Preparer prepare = nullptr);
  CoreRunner(const CoreRunner&) = delete;
  CoreRunner& operator=(const CoreRunner&) = delete;

  // Starts the fabric; requests for the devices of which it says that they are there, or have gone, go to it.
  void Add(std::unique_ptr<Fabric> fabric);

  // Instead of Add, once and before anything else, where the core is another process's: it recovers before it hears of
  // what these fabrics report, and they are asked to adopt before all else.
  void Recover(std::vector<std::unique_ptr<Fabric>> fabrics);

  // Queues `event` for the end of the loop's turn, when all that is queued is handled in its order, with one commit.
  void Queue(Event event);
  // Handles what is queued and then `event` at once, and carries out all that follows, reports that a fabric makes
  // meanwhile included.
  void Run(Event event);
  // Handles what is queued at once.
  void HandleQueued();

  // From the connector's device's fabric; none where there is no such connector.
  Route RouteTo(ConnectorId connector, const SocketAddress& destination) const;

  // Of what changes from now on; null for none, which costs nothing.
  void Follow(ChangeFollower follower);

  // Every fabric makes way; what it has noted for the next process is stored. Nothing where there is none.
  void MakeWay();
  bool HasHandshakes() const;

  const BrokerCore& core() const { return core_; }
  // As the core's, between two events.
  void SetLimits(const Limits& limits) { core_.SetLimits(limits); }

 private:
  // A file system that is full stays so for longer, and each try may hold the loop up; but a death costs what has not
  // been stored.
  static constexpr absl::Duration kFirstRetry = absl::Seconds(1);
  static constexpr absl::Duration kLastRetry = absl::Seconds(16);

  void Report(Fabric* fabric, FabricReport report);
  void Drain();
  void HandleAll();
  void Carry(const Event& cause, const Effect& effect);
  void Perform(const FabricRequest& request);
  // Once more for what fabrics have noted, and reported nothing of.
  void CommitTheRest();
  void CommitUnlessPutOff();
  void SetTimer();

  Loop& loop_;
  EffectSink sink_;
  Commit commit_;
  const Observer observer_;
  const Preparer prepare_;
  BrokerCore core_;
  ChangeFollower change_follower_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::map<DeviceId, Fabric*> fabric_of_device_;
  // Bounded by the fabrics, each of whose objects has at most one report under way for each request and state, and by
  // what clients may ask in one turn of the loop.
  std::deque<Event> waiting_;
  bool queued_ = false;  // The loop calls Drain at the end of this turn.
  bool running_ = false;
  TurnBudget left_;                            // In the loop's turn `handled_in_`.
  uint64_t handled_in_ = UINT64_MAX;           // The turn in which events were handled last.
  Instant deadline_ = absl::InfiniteFuture();  // That the timer waits for.
  TimerId timer_ = TimerId::kNone;
  TimerId commit_retry_ = TimerId::kNone;  // Runs after a commit that failed, until the next one.
  absl::Duration retry_after_ = kFirstRetry;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_CORE_RUNNER_H_
