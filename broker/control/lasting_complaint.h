// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_LASTING_COMPLAINT_H_
#define BROKER_CONTROL_LASTING_COMPLAINT_H_

#include <string>
#include <utility>

namespace rdmabroker {

// Tells what is bad from what somebody is changing just now, by looking again and again. One thread.
class LastingComplaint {
 public:
  // What the next look complains of; "" for nothing. Whether to say it: once, when two looks in a row have.
  bool Note(const std::string& complaint) {
    const bool lasts = !complaint.empty() && complaint == last_;
    if (!lasts) said_ = false;
    last_ = complaint;
    return lasts && !std::exchange(said_, true);
  }

 private:
  std::string last_;
  bool said_ = false;  // That which is the last.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_LASTING_COMPLAINT_H_
