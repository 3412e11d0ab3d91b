// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/exposition.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "broker/monitoring/families.h"
#include "broker/monitoring/process.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// Shared with the task that is under way to the loop thread, which may outlive who asked.
struct Exposition::Question {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Snapshot> last;  // Guarded by mutex, as all that follows.
  absl::Time taken = absl::InfinitePast();
  bool asked = false;  // A task is under way.
  bool closed = false;
};

Exposition::Exposition(Executor& executor, std::function<Snapshot()> take, const Metrics& metrics,
                       Directories directories, absl::Duration patience)
    : executor_(executor),
      take_(std::move(take)),
      metrics_(metrics),
      directories_(std::move(directories)),
      patience_(patience),
      question_(std::make_shared<Question>()) {}

Exposition::~Exposition() { Close(); }

void Exposition::Close() {
  const std::lock_guard lock(question_->mutex);
  question_->closed = true;
  question_->changed.notify_all();
}

std::shared_ptr<const Snapshot> Exposition::AskLoop() {
  std::unique_lock lock(question_->mutex);
  if (question_->closed) return nullptr;
  const absl::Time now = Loop::Now();
  if (now - question_->taken < kFreshness) return question_->last;
  // One at a time: a loop that is stuck must not find a heap of them.
  if (!std::exchange(question_->asked, true)) {
    executor_.Post([question = question_, take = take_] {
      const std::unique_lock answer(question->mutex);
      question->asked = false;
      if (question->closed) return;
      question->last = std::make_shared<const Snapshot>(take());
      question->taken = Loop::Now();
      question->changed.notify_all();
    });
  }
  const bool came = question_->changed.wait_for(lock, absl::ToChronoNanoseconds(patience_),
                                                [&] { return question_->closed || question_->taken >= now; });
  return came && !question_->closed ? question_->last : nullptr;
}

std::string Exposition::Page() {
  const std::shared_ptr<const Snapshot> snapshot = AskLoop();
  std::vector<prometheus::MetricFamily> families = metrics_.Collect();
  const auto add = [&](std::vector<prometheus::MetricFamily> more) {
    for (auto& family : more) families.push_back(std::move(family));
  };
  if (snapshot != nullptr) {
    add(FamiliesOf(*snapshot));
    add(PortFamilies(directories_.devices, snapshot->adapters));
  }
  add({GaugeFamily("rdma_broker_scrape_complete",
                   "1; 0 where the loop did not answer in time, so that much is missing.")
           .Add(snapshot != nullptr ? 1 : 0)
           .Take()});
  add(ProgramFamilies());
  add(StoreFamilies(directories_.store));
  add(ProcessFamilies());
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rdmabroker
