// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_REPORT_QUEUE_H_
#define BROKER_FABRIC_REPORT_QUEUE_H_

#include <deque>
#include <functional>
#include <utility>

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

// Keeps reports until whoever entered the fabric is about to leave it: the sink may come back with requests, and must
// not find an object in the middle of something. Loop thread only. Bounded by the objects: each makes at most a few
// reports between two entries.
class ReportQueue {
 public:
  // Held by everything that enters the fabric: a request, a socket's readiness, a deadline.
  class Entry {
   public:
    explicit Entry(ReportQueue& queue) : queue_(queue) { ++queue_.depth_; }
    ~Entry() {
      if (queue_.depth_ == 1) queue_.Deliver();
      --queue_.depth_;
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    ReportQueue& queue_;
  };

  // Called with one report at a time; no code of the fabric is running then but Entry's end.
  explicit ReportQueue(std::function<void(FabricReport)> deliver) : deliver_(std::move(deliver)) {}

  void Push(FabricReport report) { reports_.push_back(std::move(report)); }

 private:
  void Deliver() {
    while (!reports_.empty()) {
      FabricReport report = std::move(reports_.front());
      reports_.pop_front();
      deliver_(std::move(report));
    }
  }

  std::function<void(FabricReport)> deliver_;
  std::deque<FabricReport> reports_;
  int depth_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_REPORT_QUEUE_H_
