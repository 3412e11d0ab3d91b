// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NETLINK_ANSWER_H_
#define DATAPLANE_NETLINK_ANSWER_H_

#include <cerrno>
#include <functional>
#include <span>

namespace rdmabroker {

// The kernel's answer to one netlink request, as it comes in parts. No I/O.
class NetlinkAnswer {
 public:
  enum class Progress {
    kMore,       // Another part is to come.
    kOver,       // The answer is complete: error().
    kMalformed,  // A message's length does not fit its part, or the last message is too short to say how it went.
  };
  // Takes what one recv returned, aligned as netlink messages are, and calls `on_message` with what each message
  // carries, and its length.
  Progress Take(std::span<const char> part, const std::function<void(const void* first, int length)>& on_message);

  // 0, or the kernel's errno; EINTR for a list that it says has changed meanwhile.
  [[nodiscard]] int error() const { return error_ == 0 && interrupted_ ? EINTR : error_; }

 private:
  int error_ = 0;
  bool interrupted_ = false;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_NETLINK_ANSWER_H_
