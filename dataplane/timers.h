// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TIMERS_H_
#define DATAPLANE_TIMERS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "dataplane/data_object.h"

namespace rdmabroker {

// A time at which an adapter's thread is to call an object. It is a member of that object, so that there is memory for
// it when it is set.
class Timer {
 public:
  using Clock = std::chrono::steady_clock;

  Timer(DataObject* object, std::function<void()> run);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  friend class Timers;
  using Order = std::set<std::pair<Clock::time_point, Timer*>>;

  DataObject* const object_;
  const std::function<void()> run_;
  Order::node_type unset_;  // Its place in the order, while it is not set.
  std::optional<Clock::time_point> due_;
};

// The timers of a thread that are set. Needs no memory. Used under its owner's lock.
class Timers {
 public:
  using Clock = Timer::Clock;

  // In place of a time that was set before; none: not at all. Refers to nothing: a timer is not set any more when the
  // last reference to its object goes.
  void Set(Timer* timer, std::optional<Clock::time_point> time);
  // When the first is due; nothing if none is set.
  std::optional<Clock::time_point> first() const;

  // One that was due, with a reference to its object.
  class Due {
   public:
    explicit operator bool() const { return timer_ != nullptr; }
    // With none of the data plane's locks held.
    void Run() const { timer_->run_(); }

   private:
    friend class Timers;
    Timer* timer_ = nullptr;
    ObjectReference<DataObject> object_;
  };
  // The first, if it is due by then; it is not set any more.
  Due Take(Clock::time_point by);

 private:
  Timer::Order order_;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_TIMERS_H_
