// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_FAKE_SUPERVISOR_H_
#define BROKER_RUNTIME_FAKE_SUPERVISOR_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "broker/runtime/supervisor.h"

namespace rdmabroker {

// A supervisor within the test's process, which it outlives as often as the test says. It passes the conformance suite
// of those that are processes.
class FakeSupervisor final : public Supervisor {
 public:
  explicit FakeSupervisor(bool there = true, absl::Duration watchdog_interval = absl::InfiniteDuration());

  // What the supervised process is now has died, and another has begun: TakeKept returns all that is stored.
  void Restart();
  void KeepAtMost(size_t most) { most_kept_ = most; }
  // From now on this is what it returns; an error, as if it had gone, changes nothing.
  void Answer(absl::Status status) { answer_ = std::move(status); }
  // Instead, what it returns to the next calls, one for each.
  void AnswerNext(std::deque<absl::Status> statuses) { next_answers_ = std::move(statuses); }
  // Between these two calls it does not say that it has done what it was told.
  void FallSilent();
  void Speak();
  // What it was told, in order: "ready", "stopping", "status TEXT", "ping", "store NAME", "remove NAME", "barrier".
  const std::vector<std::string>& told() const { return told_; }
  const std::vector<KeptDescriptor>& stored() const { return stored_; }

  bool IsThere() const override { return there_; }
  absl::Duration watchdog_interval() const override { return watchdog_interval_; }
  size_t most_kept() const override { return most_kept_; }
  absl::Status Ready() override { return Hear("ready"); }
  absl::Status Stopping() override { return Hear("stopping"); }
  absl::Status ShowStatus(const std::string& text) override;
  absl::Status PingWatchdog() override { return Hear("ping"); }
  absl::Status Store(const std::string& name, int fd) override;
  absl::Status Remove(const std::string& name) override;
  absl::StatusOr<UniqueFd> StartBarrier() override;
  std::vector<KeptDescriptor> TakeKept() override { return std::exchange(kept_, {}); }

 private:
  absl::Status Hear(std::string what);

  const bool there_;
  const absl::Duration watchdog_interval_;
  size_t most_kept_ = kMostKept;
  const UniqueFd speaks_;  // An event counter: 0 while it is silent.
  absl::Status answer_;
  std::deque<absl::Status> next_answers_;
  std::vector<std::string> told_;
  std::vector<KeptDescriptor> stored_;
  std::vector<KeptDescriptor> kept_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_FAKE_SUPERVISOR_H_
