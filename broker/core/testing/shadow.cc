// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/shadow.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

template <typename Key, typename Record>
void Copy(const Key& key, const Table<Key, Record>& from, Table<Key, Record>& to) {
  const auto found = from.find(key);
  if (found == from.end()) {
    to.erase(key);
  } else {
    to[key] = found->second;
  }
}

// The id of a record that only one of the tables has, or that differs; 0 where they are equal.
template <typename Key, typename Record>
uint64_t Difference(const Table<Key, Record>& one, const Table<Key, Record>& other) {
  if (one == other) return 0;
  for (const auto& [key, record] : one) {
    const auto found = other.find(key);
    if (found == other.end() || !(found->second == record)) return key.value();
  }
  for (const auto& [key, record] : other) {
    if (!one.contains(key)) return key.value();
  }
  return 0;
}

}  // namespace

absl::Status Shadow::Follow(BrokerCore& core) {
  changes_ = core.TakeChanges();
  const Records& records = core.records();
  if (changes_.counters) records_.counters = records.counters;
  records_.now = records.now;
  ForEachTable(
      [](auto& own, const auto& cores, const auto& keys) {
        for (const auto& key : keys) Copy(key, cores, own);
      },
      records_, records, changes_);
  if (records_ == records) return absl::OkStatus();
  const char* const kinds[] = {"device",      "session",   "adapter",  "listener",  "shared endpoint",
                               "reservation", "connector", "endpoint", "connection"};
  const char* const* kind = kinds;
  std::string missing = records_.counters == records.counters ? "a table that is left out" : "the counters";
  ForEachTable(
      [&](const auto& own, const auto& cores) {
        if (const uint64_t id = Difference(own, cores); id != 0) missing = absl::StrCat(*kind, " ", id);
        ++kind;
      },
      records_, records);
  return absl::InternalError(absl::StrCat(missing, ": has changed, and is not among the changes"));
}

}  // namespace rdmabroker
