// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/core_runner.h"

#include <utility>

namespace rdmabroker {

CoreRunner::CoreRunner(const Limits& limits, Watcher& watcher, EffectSink sink)
    : watcher_(watcher), sink_(std::move(sink)), core_(limits) {}

void CoreRunner::Add(std::unique_ptr<Fabric> fabric) {
  Fabric* added = fabric.get();
  fabrics_.push_back(std::move(fabric));
  added->Start([this, added](FabricReport report) { Report(added, std::move(report)); });
}

void CoreRunner::Run(const Event& event) {
  waiting_.push_back(event);
  Drain();
}

void CoreRunner::Report(Fabric* fabric, FabricReport report) {
  if (const auto* changed = std::get_if<DeviceChanged>(&report)) fabric_of_device_[changed->device.id] = fabric;
  waiting_.push_back(std::move(report));
  Drain();
}

void CoreRunner::Drain() {
  if (running_) return;
  running_ = true;
  while (!waiting_.empty()) {
    const Event event = std::move(waiting_.front());
    waiting_.pop_front();
    HandleOne(event);
  }
  running_ = false;
  const Instant next = core_.NextDeadline();
  if (next == deadline_) return;
  watcher_.CancelTimer(timer_);
  timer_ = TimerId::kNone;
  deadline_ = next;
  if (next == absl::InfiniteFuture()) return;
  timer_ = watcher_.StartTimer(next, [this] {
    deadline_ = absl::InfiniteFuture();
    Run(DeadlineReached{});
  });
}

void CoreRunner::HandleOne(const Event& event) {
  for (const Effect& effect : core_.Handle(Watcher::Now(), event)) {
    if (const auto* request = std::get_if<FabricRequest>(&effect)) {
      Perform(*request);
    } else {
      sink_(effect);
    }
  }
}

void CoreRunner::Perform(const FabricRequest& request) {
  const DeviceId device = std::visit([](const auto& typed) { return typed.device; }, request);
  fabric_of_device_.at(device)->Perform(request);
}

}  // namespace rdmabroker
