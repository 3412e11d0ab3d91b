// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/descriptor_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace rdmabroker::keeper {

namespace {

// Those of which the system does not tell count as of one inode.
std::pair<dev_t, ino_t> InodeOf(int fd) {
  struct stat found = {};
  ::fstat(fd, &found);
  return {found.st_dev, found.st_ino};
}

}  // namespace

DescriptorStore::Outcome DescriptorStore::Add(std::string_view name, UniqueFd fd, bool polled) {
  const Inode inode = InodeOf(fd.get());
  const auto [first, last] = by_inode_.equal_range(inode);
  if (std::any_of(first, last, [&fd](const auto& other) { return AreSameFile(other.second, fd.get()); })) {
    return Outcome::kAlreadyThere;
  }
  if (stored_.size() >= most_ || names_ + name.size() + 1 > kMaxNames) return Outcome::kNoRoom;
  names_ += name.size() + 1;
  by_inode_.emplace(inode, fd.get());
  stored_.push_back({{std::string(name), std::move(fd)}, polled});
  return Outcome::kStored;
}

template <typename Condition>
void DescriptorStore::RemoveWhere(const Condition& condition) {
  for (const Stored& stored : stored_) {
    if (!condition(stored)) continue;
    names_ -= stored.name.size() + 1;
    std::erase_if(by_inode_, [&](const auto& each) { return each.second == stored.fd.get(); });
  }
  std::erase_if(stored_, condition);
}

void DescriptorStore::Remove(std::string_view name) {
  RemoveWhere([name](const Stored& stored) { return stored.name == name; });
}

void DescriptorStore::RemoveBroken(int fd) {
  RemoveWhere([fd](const Stored& stored) { return stored.fd.get() == fd; });
}

std::string DescriptorStore::Names() const {
  return absl::StrJoin(stored_, ":", [](std::string* out, const Stored& stored) { out->append(stored.name); });
}

}  // namespace rdmabroker::keeper
