// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_UNWANTED_IDS_H_
#define BROKER_FABRIC_RDMACM_UNWANTED_IDS_H_

#include <functional>
#include <utility>

namespace rdmabroker {

// The kernel's ids of connect requests that nobody has taken, while the pool destroys them. Peers make as many as they
// like, and destroying one may block for seconds. So while there are many, no events are read: the kernel, which keeps
// a listener's backlog of requests and no more, turns peers away then. Ids that clients have made or taken do not
// count; the core bounds those. Loop thread only.
class UnwantedIds {
 public:
  // Four for each thread of the pool: all of them have something to do until the next are read, and other work has
  // not much before it.
  static constexpr int kMany = 256;

  // `on_few` runs when there are no longer many.
  explicit UnwantedIds(std::function<void()> on_few) : on_few_(std::move(on_few)) {}

  // From kMany on, until half of those are left.
  [[nodiscard]] bool many() const { return many_; }

  void Add() {
    if (++count_ >= kMany) many_ = true;
  }
  void Remove() {
    --count_;
    if (count_ > kMany / 2 || !std::exchange(many_, false)) return;
    on_few_();
  }

 private:
  const std::function<void()> on_few_;
  int count_ = 0;
  bool many_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_UNWANTED_IDS_H_
