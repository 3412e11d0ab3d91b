// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_RECORD_FILE_H_
#define BROKER_STORE_RECORD_FILE_H_

#include <google/protobuf/arena.h>
#include <google/protobuf/message_lite.h>
#include <lmdb.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "broker/store/format.h"
#include "broker/store/records.pb.h"

namespace rdmabroker::store {

// All records of a file but its header, which says this of them.
struct Totals {
  uint64_t records = 0;
  uint64_t checksums = 0;  // Their sum, modulo 2^64.
};

// What messages and values are made in, so that not every one of them allocates memory.
struct Workspace {
  std::array<char, 8192> block;  // Holds any message but one with much private data.
  google::protobuf::Arena arena{block.data(), block.size()};
  std::string buffer;
};

// What one commit changes. After an error the rest does nothing, and the commit fails with it.
class Transaction {
 public:
  Transaction(MDB_env* env, const Totals& totals, Workspace& workspace);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // A record that is there as it is already costs no page.
  void Put(const Key& key, const google::protobuf::MessageLite& message);
  // The same, of the message that `fill` makes of an empty one.
  template <typename Message, typename Fill>
  void PutMade(const Key& key, const Fill& fill) {
    if (error_ != MDB_SUCCESS) return;
    auto* const message = google::protobuf::Arena::CreateMessage<Message>(&workspace_.arena);
    fill(message);
    Put(key, *message);
    workspace_.arena.Reset();
  }
  // Nothing where there is none.
  void Erase(const Key& key);
  // All that is not `wanted`.
  void EraseUnless(absl::FunctionRef<bool(const Key&)> wanted);

  // Writes `header` with the totals and makes all of it durable. Returns LMDB's error; nothing has changed then.
  [[nodiscard]] int Finish(v1::Header header);
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  // The value that is there, where the cursor stands from then on; false where there is none, or after an error.
  bool Find(const KeyBytes& key, MDB_val& value);
  void Note(int error) { error_ = error_ == MDB_SUCCESS ? error : error_; }

  MDB_txn* transaction_ = nullptr;
  MDB_cursor* cursor_ = nullptr;  // Goes with the transaction.
  Totals totals_;
  Workspace& workspace_;
  int error_ = MDB_SUCCESS;
};

// A file of records that this process has made and writes alone.
//
// All that it has mapped is allocated: a page of a sparse file that a full tmpfs cannot provide ends the process with
// SIGBUS when LMDB writes to it. So the file is no larger than its records need, and grows by allocating first, which
// can fail in peace.
class RecordFile {
 public:
  // An empty file; what was at `path` goes.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Create(const std::string& path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // All that `change` does, or nothing. Calls it again where the file has had to grow. RESOURCE_EXHAUSTED where there
  // is no room for that, as CheckRoom says.
  absl::Status Commit(const v1::Header& header, absl::FunctionRef<void(Transaction&)> change);

  // RESOURCE_EXHAUSTED where the file cannot grow now. A question to the file system, which costs little.
  [[nodiscard]] absl::Status CheckRoom() const;
  [[nodiscard]] uint64_t records() const { return totals_.records; }

  // Takes the place of what is at `path`, at once.
  absl::Status MoveTo(const std::string& path);

 private:
  RecordFile(std::string path, MDB_env* env) : path_(std::move(path)), env_(env) {}
  absl::Status Allocate(size_t size);
  // The file's size after the next growth.
  [[nodiscard]] size_t NextSize() const;
  absl::Status Grow();
  absl::Status Failed(const char* what, int error) const;

  std::string path_;
  MDB_env* const env_;
  size_t size_ = 0;
  Totals totals_;
  Workspace workspace_;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_RECORD_FILE_H_
