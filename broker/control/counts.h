// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_COUNTS_H_
#define BROKER_CONTROL_COUNTS_H_

#include <cstddef>
#include <map>

namespace rdmabroker {

// Counts what each user or host has.
template <typename Who>
class Counts {
 public:
  [[nodiscard]] size_t of(const Who& who) const {
    const auto found = counts_.find(who);
    return found == counts_.end() ? 0 : found->second;
  }
  // One more, and one less.
  void Enter(const Who& who) { ++counts_[who]; }
  void Leave(const Who& who) {
    const auto found = counts_.find(who);
    if (--found->second == 0) counts_.erase(found);
  }

 private:
  std::map<Who, size_t> counts_;  // Contains no zeros.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_COUNTS_H_
