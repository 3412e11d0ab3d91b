// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/core_runner.h"

#include <algorithm>
#include <utility>

#include "broker/crash_points/crash_points.h"

namespace rdmabroker {
namespace {

// Steps are in the order of the alternatives.
Step StepOf(const Effect& effect) {
  const auto* const request = std::get_if<FabricRequest>(&effect);
  return static_cast<Step>(static_cast<size_t>(Step::kSessionOpened) + effect.index() +
                           (request == nullptr ? 0 : request->index()));
}
static_assert(static_cast<size_t>(Step::kFabricAdopted) - static_cast<size_t>(Step::kSessionOpened) ==
              std::variant_size_v<Effect::variant> + std::variant_size_v<FabricRequest::variant> - 2);

}  // namespace

CoreRunner::CoreRunner(BrokerCore core, Loop& loop, EffectSink sink, Commit commit, Observer observer, Preparer prepare)
    : loop_(loop),
      sink_(std::move(sink)),
      commit_(std::move(commit)),
      observer_(std::move(observer)),
      prepare_(std::move(prepare)),
      core_(std::move(core)) {}

void CoreRunner::Add(std::unique_ptr<Fabric> fabric) {
  Fabric* added = fabric.get();
  fabrics_.push_back(std::move(fabric));
  added->Start([this, added](FabricReport report) { Report(added, std::move(report)); });
}

void CoreRunner::Recover(std::vector<std::unique_ptr<Fabric>> fabrics) {
  running_ = true;
  waiting_.push_back(rdmabroker::Recover{});
  for (auto& fabric : fabrics) Add(std::move(fabric));
  running_ = false;
  Drain();
}

void CoreRunner::Run(Event event) {
  waiting_.push_back(std::move(event));
  Drain();
}

void CoreRunner::Queue(Event event) {
  waiting_.push_back(std::move(event));
  // What is being handled now takes it along.
  if (running_ || std::exchange(queued_, true)) return;
  loop_.AtTurnEnd(Loop::Stage::kHandle, [this] {
    queued_ = false;
    HandleQueued();
  });
}

void CoreRunner::HandleQueued() {
  if (!waiting_.empty()) Drain();
}

void CoreRunner::Follow(ChangeFollower follower) {
  core_.StopTaking(ChangeReader::kWatches);
  // The first time all is told, which is nothing new.
  if (follower) (void)core_.TakeChanges(ChangeReader::kWatches);
  change_follower_ = std::move(follower);
}

void CoreRunner::MakeWay() {
  // What another process has left is not this one's to store yet.
  if (fabrics_.empty()) return;
  for (const auto& fabric : fabrics_) fabric->MakeWay();
  // The next process may come before the time to try again.
  loop_.CancelTimer(std::exchange(commit_retry_, TimerId::kNone));
  Drain();
}

bool CoreRunner::HasHandshakes() const {
  return std::any_of(fabrics_.begin(), fabrics_.end(), [](const auto& fabric) { return fabric->HasHandshakes(); });
}

Route CoreRunner::RouteTo(ConnectorId connector, const SocketAddress& destination) const {
  const Records& records = core_.records();
  const auto found = records.connectors.find(connector);
  if (found == records.connectors.end()) return {};
  const auto fabric = fabric_of_device_.find(records.adapters.at(found->second.adapter).device);
  return fabric == fabric_of_device_.end() ? Route() : fabric->second->RouteTo(destination);
}

void CoreRunner::Report(Fabric* fabric, FabricReport report) {
  if (const auto* changed = std::get_if<DeviceChanged>(&report)) fabric_of_device_[changed->device.id] = fabric;
  if (const auto* removed = std::get_if<DeviceRemoved>(&report)) fabric_of_device_[removed->device] = fabric;
  Queue(std::move(report));
}

void CoreRunner::Drain() {
  if (running_) return;
  running_ = true;
  while (!waiting_.empty()) HandleAll();
  CommitTheRest();
  running_ = false;
  SetTimer();
  // It may end following, and with that itself.
  if (const ChangeFollower follower = change_follower_) follower(core_.TakeChanges(ChangeReader::kWatches));
}

void CoreRunner::CommitTheRest() {
  const CrashPoints points(Step::kCommitTheRest);
  CommitUnlessPutOff();
}

void CoreRunner::CommitUnlessPutOff() {
  if (commit_retry_ != TimerId::kNone) return;
  if (commit_(core_)) {
    retry_after_ = kFirstRetry;
    return;
  }
  const absl::Duration wait = std::exchange(retry_after_, std::min(retry_after_ * 2, kLastRetry));
  commit_retry_ = loop_.StartTimer(Loop::Now() + wait, [this] {
    commit_retry_ = TimerId::kNone;
    CommitTheRest();
  });
}

// One commit serves all that waits.
void CoreRunner::HandleAll() {
  std::deque<Event> events = std::exchange(waiting_, {});
  std::vector<Effects> effects;
  if (std::exchange(handled_in_, loop_.turn()) != loop_.turn()) left_ = core_.limits().a_turn;
  for (Event& event : events) {
    if (prepare_) prepare_(event);
    const Instant now = Loop::Now();
    effects.push_back(core_.Handle(now, event, &left_));
    if (observer_) observer_(now, event, effects.back());
  }
  {
    const CrashPoints points(Step::kCommit);
    CommitUnlessPutOff();
  }
  for (size_t i = 0; i < events.size(); ++i) {
    for (const Effect& effect : effects[i]) Carry(events[i], effect);
  }
}

void CoreRunner::Carry(const Event& cause, const Effect& effect) {
  const CrashPoints points(StepOf(effect));
  if (const auto* request = std::get_if<FabricRequest>(&effect)) {
    Perform(*request);
  } else {
    sink_(cause, effect);
  }
}

void CoreRunner::SetTimer() {
  const Instant next = core_.NextDeadline();
  if (next == deadline_) return;
  // Both are due, so the timer stays: if each event replaced it, it might never run.
  if (std::max(next, deadline_) <= Loop::Now()) return;
  loop_.CancelTimer(timer_);
  timer_ = TimerId::kNone;
  deadline_ = next;
  if (next == absl::InfiniteFuture()) return;
  timer_ = loop_.StartTimer(next, [this] {
    deadline_ = absl::InfiniteFuture();
    Queue(DeadlineReached{});
  });
}

void CoreRunner::Perform(const FabricRequest& request) {
  const DeviceId device = std::visit([](const auto& typed) { return typed.device; }, request);
  fabric_of_device_.at(device)->Perform(request);
}

}  // namespace rdmabroker
