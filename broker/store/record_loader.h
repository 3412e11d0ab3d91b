// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_RECORD_LOADER_H_
#define BROKER_STORE_RECORD_LOADER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "broker/store/format.h"
#include "broker/store/record_file.h"
#include "broker/store/store.h"

namespace rdmabroker::store {

// Makes the core's records of a store's entries, which come in the order of their keys. Errors are DATA_LOSS, naming
// the record; but FAILED_PRECONDITION where a newer broker has written them.
class RecordLoader {
 public:
  absl::Status Take(std::string_view key, std::string_view value);

  struct Loaded {
    Stored stored;
    uint64_t commit = 0;
    std::string boot_id;
  };
  // After the last entry.
  absl::StatusOr<Loaded> Finish();

 private:
  absl::Status TakeHeader(std::string_view message);
  absl::Status TakeRecord(const Key& key, std::string_view message);
  absl::Status TakeAnswer(const Key& key, std::string_view message);
  absl::Status TakeEvent(const Key& key, std::string_view message);
  template <typename Id>
  absl::Status TakeFabricRecord(const Key& key, std::string_view message, Table<Id, std::string>& of_fabrics);

  Stored stored_;
  v1::Header header_;  // Its version is 0 until it has been taken.
  Totals totals_;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_RECORD_LOADER_H_
