// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_FORKED_CHILD_H_
#define DATAPLANE_FORKED_CHILD_H_

#include <utility>

namespace rdmabroker {

// A child by fork(2) has its parent's objects in its memory and its descriptors, but none of its threads, and perhaps
// locks that nobody opens. What it did to an object would be done to the parent's connection. So each public function
// asks first whether it is in a child, and then does nothing.

// From now on this process's children know that they are. Any thread.
void NoticeForks();
// Whether this process is a child, by fork(2), of one that had called NoticeForks. Costs a load from memory.
bool IsForkedChild();

// A descriptor that children close as they begin, for as long as this lives: if one kept it, what the parent's end is
// to end would last as long as the child. The owner closes it afterwards. After NoticeForks. Any thread.
class ParentsAlone {
 public:
  ParentsAlone() = default;
  explicit ParentsAlone(int fd);
  ParentsAlone(ParentsAlone&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ParentsAlone& operator=(ParentsAlone&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ParentsAlone();

 private:
  int fd_ = -1;
};

// The hint of calls that a child makes.
inline constexpr char kForkedChildHint[] =
    "this process was forked by one that has used the library, and may use nothing of it: fork before the first call, "
    "or start another program";

}  // namespace rdmabroker

#endif  // DATAPLANE_FORKED_CHILD_H_
