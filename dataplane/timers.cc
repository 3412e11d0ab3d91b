// SPDX-License-Identifier: Apache-2.0

#include "dataplane/timers.h"

namespace rdmabroker {

// The standard's sets give the memory of an element away, and take it back, whole.
Timer::Timer(DataObject* object, std::function<void()> run) : object_(object), run_(std::move(run)) {
  Order made;
  made.emplace(Clock::time_point(), this);
  unset_ = made.extract(made.begin());
}

void Timers::Set(Timer* timer, std::optional<Clock::time_point> time) {
  if (timer->due_) timer->unset_ = order_.extract({*timer->due_, timer});
  timer->due_ = time;
  if (!time) return;
  timer->unset_.value().first = *time;
  order_.insert(std::move(timer->unset_));
}

std::optional<Timers::Clock::time_point> Timers::first() const {
  if (order_.empty()) return std::nullopt;
  return order_.begin()->first;
}

Timers::Due Timers::Take(Clock::time_point by) {
  Due due;
  if (order_.empty() || order_.begin()->first > by) return due;
  due.timer_ = order_.begin()->second;
  due.object_ = ObjectReference<DataObject>(due.timer_->object_);
  Set(due.timer_, std::nullopt);
  return due;
}

}  // namespace rdmabroker
