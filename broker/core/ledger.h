// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_LEDGER_H_
#define BROKER_CORE_LEDGER_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "broker/core/state.h"

namespace rdmabroker {

// Counts the bytes of memory that the broker keeps for each user. The store needs no more (store_bench.cc).
class Ledger {
 public:
  void Charge(uint32_t uid, uint64_t bytes);
  // `bytes` must have been charged before.
  void Release(uint32_t uid, uint64_t bytes);
  [[nodiscard]] uint64_t Of(uint32_t uid) const;
  [[nodiscard]] uint64_t OfAll() const { return of_all_; }

  bool operator==(const Ledger&) const = default;

 private:
  absl::flat_hash_map<uint32_t, uint64_t> of_user_;  // Never 0.
  uint64_t of_all_ = 0;
};

// A session without what it owns, and what it is found by.
inline constexpr uint64_t kSessionBytes = 1024;
// The dearest object: a connector with private data, its endpoint, its connection, and what they are found by.
inline constexpr uint64_t kObjectBytes = 2560;
uint64_t BytesOf(const KeptAnswer& answer);
uint64_t BytesOf(const SessionEvent& event);
// With its answers and events, without its objects.
uint64_t BytesOf(const SessionRecord& session);

}  // namespace rdmabroker

#endif  // BROKER_CORE_LEDGER_H_
