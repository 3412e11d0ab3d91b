// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/descriptor_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace rdmabroker::keeper {

DescriptorStore::Outcome DescriptorStore::Add(std::string_view name, UniqueFd fd, bool polled) {
  if (std::any_of(stored_.begin(), stored_.end(),
                  [&fd](const Stored& other) { return AreSameFile(other.fd.get(), fd.get()); })) {
    return Outcome::kAlreadyThere;
  }
  if (stored_.size() >= most_ || names_ + name.size() + 1 > kMaxNames) return Outcome::kNoRoom;
  names_ += name.size() + 1;
  stored_.push_back({{std::string(name), std::move(fd)}, polled});
  return Outcome::kStored;
}

template <typename Condition>
void DescriptorStore::RemoveWhere(const Condition& condition) {
  std::erase_if(stored_, condition);
  names_ = 0;
  for (const Stored& stored : stored_) names_ += stored.name.size() + 1;
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
