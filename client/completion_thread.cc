// SPDX-License-Identifier: Apache-2.0

#include "client/completion_thread.h"

#include <grpc/support/time.h>

#include <utility>

#include "dataplane/become_callback_thread.h"
#include "dataplane/callback_thread.h"
#include "dataplane/start_thread.h"

namespace rdmabroker::client {

struct CompletionThread::Timer final : Tag {
  Timer(CompletionThread* thread, TimerId id, Work work) : owner(thread), timer(id), run(std::move(work)) {}
  void Complete(bool) override {
    const Work work = std::move(run);
    CompletionThread* const thread = owner;
    thread->timers_.erase(timer);  // Destroys this.
    if (work && !thread->stopping_) work();
  }

  CompletionThread* const owner;
  const TimerId timer;
  Work run;  // Empty once cancelled.
  grpc::Alarm alarm;
};

std::shared_ptr<CompletionThread> CompletionThread::Start() {
  std::shared_ptr<CompletionThread> started(new CompletionThread);
  // The thread keeps itself alive; it begins with the lock, which this function holds until all is set.
  const std::lock_guard lock(started->mutex_);
  started->thread_ = StartThread([started] {
    { const std::lock_guard wait(started->mutex_); }
    started->Run();
  });
  if (!started->thread_.joinable()) return nullptr;
  started->id_ = started->thread_.get_id();
  started->grpc_.emplace();
  return started;
}

CompletionThread::~CompletionThread() = default;

bool CompletionThread::Post(Work&& work) { return PostAnd(true, std::move(work)); }

bool CompletionThread::PostLast(Work&& work) { return PostAnd(false, std::move(work)); }

bool CompletionThread::PostReserved(Reserved&& work) { return PostAnd(true, work); }

bool CompletionThread::PostAnd(bool accept_more, Work&& work) {
  Reserved reserved(1);
  reserved.front().swap(work);
  if (PostAnd(accept_more, reserved)) return true;
  reserved.front().swap(work);
  return false;
}

bool CompletionThread::PostAnd(bool accept_more, Reserved& work) {
  const std::lock_guard lock(mutex_);
  if (!accepting_) return false;
  accepting_ = accept_more;
  posted_.splice(posted_.end(), work);
  // The thread looks for posted work after each thing it does; only a thread that waits has to be woken.
  if (!wake_set_ && !IsCurrent()) {
    wake_set_ = true;
    grpc_->wake.Set(queue(), gpr_time_0(GPR_CLOCK_REALTIME), &wake_tag_);
  }
  return true;
}

void* CompletionThread::Begin(Tag* tag) {
  ++begun_;
  return tag;
}

CompletionThread::TimerId CompletionThread::After(std::chrono::milliseconds delay, Work work) {
  const TimerId id{++last_timer_};
  auto timer = std::make_unique<Timer>(this, id, std::move(work));
  const gpr_timespec span = gpr_time_from_millis(delay.count(), GPR_TIMESPAN);
  timer->alarm.Set(queue(), gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span), Begin(timer.get()));
  timers_.emplace(id, std::move(timer));
  return id;
}

void CompletionThread::Cancel(TimerId timer) {
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  found->second->run = nullptr;
  found->second->alarm.Cancel();
}

void CompletionThread::Stop() {
  stopping_ = true;
  for (auto& [id, timer] : timers_) timer->alarm.Cancel();
}

void CompletionThread::Join() { OnCallbackThread() ? thread_.detach() : thread_.join(); }

void CompletionThread::Run() {
  BecomeCallbackThread();
  void* tag = nullptr;
  bool ok = false;
  while (queue()->Next(&tag, &ok)) {
    if (tag == &wake_tag_) {
      const std::lock_guard lock(mutex_);
      wake_set_ = false;
    } else {
      --begun_;
      static_cast<Tag*>(tag)->Complete(ok);
    }
    RunPosted();
    ShutDownIfIdle();
  }
}

void CompletionThread::RunPosted() {
  while (true) {
    std::list<Work> works;
    {
      const std::lock_guard lock(mutex_);
      works.swap(posted_);
      if (works.empty()) {
        accepting_ = accepting_ && !stopping_;
        return;
      }
    }
    for (Work& work : works) std::exchange(work, nullptr)();
  }
}

void CompletionThread::ShutDownIfIdle() {
  const std::lock_guard lock(mutex_);
  if (!stopping_ || begun_ != 0 || wake_set_ || shut_down_) return;
  shut_down_ = true;
  queue()->Shutdown();
}

}  // namespace rdmabroker::client
