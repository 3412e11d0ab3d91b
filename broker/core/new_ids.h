// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_NEW_IDS_H_
#define BROKER_CORE_NEW_IDS_H_

#include <cstdint>

#include "broker/core/state.h"
#include "dataplane/keyed_permutation.h"

namespace rdmabroker {

// The ids that one counter gives out. In a row they would tell each user what the others do: so those of each 2^32 are
// permuted by Counters::id_key.
template <typename Kind>
class NewIds {
 public:
  NewIds(uint64_t key, uint64_t& counter) : key_(key), counter_(counter), next_(counter) {}

  // The next one that names nothing in the table, which only a damaged store's can. It is given out when it is taken.
  template <typename TableType>
  Id<Kind> Next(const TableType& table) {
    Id<Kind> id;
    do {
      id = At(++next_);
    } while (!id || table.contains(id));
    return id;
  }
  void Take() { counter_ = next_; }

 private:
  static constexpr uint64_t kPermuted = 0xFFFFFFFF;

  [[nodiscard]] Id<Kind> At(uint64_t count) const {
    if (key_ == 0) return Id<Kind>(count);
    return Id<Kind>((count & ~kPermuted) | KeyedPermutation(key_).Of(static_cast<uint32_t>(count)));
  }

  const uint64_t key_;
  uint64_t& counter_;
  uint64_t next_;
};

// Sets the key for records that an older broker wrote without one. All ids from now on are above those that it gave
// out.
void SetKeyOfIds(uint64_t key, Counters& counters);

}  // namespace rdmabroker

#endif  // BROKER_CORE_NEW_IDS_H_
