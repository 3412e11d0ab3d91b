// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_DESCRIPTOR_STORE_H_
#define BROKER_KEEPER_DESCRIPTOR_STORE_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/runtime/kept_descriptor.h"

namespace rdmabroker::keeper {

// The descriptors that are kept for a process, in the order in which they came. One thread.
class DescriptorStore {
 public:
  // All names together, each with its separator: LISTEN_FDNAMES must fit into one string of the environment, which has
  // 131,072 bytes with its end (MAX_ARG_STRLEN, binfmts.h of Linux); 72 are left for what stands before the names.
  static constexpr size_t kMaxNames = 131'000;
  // The most that may be promised: so many have room with names of 30 bytes each, and the broker's are shorter.
  static constexpr size_t kMost = kMaxNames / 31;

  struct Stored : KeptDescriptor {
    bool polled = false;  // Goes once there is a hangup or an error on it.
  };
  enum class Outcome { kStored, kAlreadyThere, kNoRoom };

  // `most`: so many descriptors at once.
  explicit DescriptorStore(size_t most) : most_(most) {}

  // `name` has passed IsDescriptorName. It is closed where it is not stored.
  Outcome Add(std::string_view name, UniqueFd fd, bool polled);
  // Closes all of that name.
  void Remove(std::string_view name);
  // Closes the one with that number.
  void RemoveBroken(int fd);

  const std::vector<Stored>& stored() const { return stored_; }
  size_t most() const { return most_; }
  // As in LISTEN_FDNAMES.
  std::string Names() const;

 private:
  using Inode = std::pair<dev_t, ino_t>;

  template <typename Condition>
  void RemoveWhere(const Condition& condition);

  const size_t most_;
  std::vector<Stored> stored_;
  // The numbers of the stored descriptors. Only those of one inode can be one file, so that not every new one is
  // compared with all; they need not be: all that are opened of one device share its inode.
  std::multimap<Inode, int> by_inode_;
  size_t names_ = 0;  // Bytes.
};

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_DESCRIPTOR_STORE_H_
