// SPDX-License-Identifier: Apache-2.0

#include "broker/store/record_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/crash_points/crash_points.h"

namespace rdmabroker::store {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;
// For a thousand connectors. From then on it grows by half, so that few commits have to wait for it, and little is
// idle.
constexpr size_t kFirstSize = kMebibyte;
// A bound for the memory that clients can make the broker take. A connector with its connection, its endpoint and its
// share of a session takes 0.7 KiB (tests/bench/store_bench.cc): so it is for more than a million, twenty users who
// have all that objects_per_uid allows.
constexpr size_t kGreatestSize = 1024 * kMebibyte;

// The owner's alone: sessions' secrets are in it.
constexpr mdb_mode_t kMode = 0600;

MDB_val ValueOf(const char* bytes, size_t size) { return {size, const_cast<char*>(bytes)}; }
MDB_val ValueOf(const KeyBytes& key) { return ValueOf(key.data(), key.size()); }

uint64_t ChecksumIn(const MDB_val& value) { return GetChecksum(static_cast<const char*>(value.mv_data)); }

}  // namespace

Transaction::Transaction(MDB_env* env, const Totals& totals, Workspace& workspace)
    : totals_(totals), workspace_(workspace) {
  MDB_dbi database = 0;
  Note(::mdb_txn_begin(env, nullptr, 0, &transaction_));
  if (error_ == MDB_SUCCESS) Note(::mdb_dbi_open(transaction_, nullptr, 0, &database));
  if (error_ == MDB_SUCCESS) Note(::mdb_cursor_open(transaction_, database, &cursor_));
}

Transaction::~Transaction() {
  if (transaction_ != nullptr) ::mdb_txn_abort(transaction_);
}

bool Transaction::Find(const KeyBytes& key, MDB_val& value) {
  if (error_ != MDB_SUCCESS) return false;
  MDB_val name = ValueOf(key);
  const int error = ::mdb_cursor_get(cursor_, &name, &value, MDB_SET);
  if (error != MDB_NOTFOUND) Note(error);
  return error == MDB_SUCCESS;
}

void Transaction::Put(const Key& key, const google::protobuf::MessageLite& message) {
  const CrashPoints points(Step::kPutRecord);
  const KeyBytes bytes = ToBytes(key);
  std::string& buffer = workspace_.buffer;
  buffer.assign(kChecksumSize, '\0');
  if (!message.AppendToString(&buffer)) Note(EOVERFLOW);
  const uint64_t checksum = ChecksumOf({bytes.data(), bytes.size()}, std::string_view(buffer).substr(kChecksumSize));
  PutChecksum(checksum, buffer.data());
  MDB_val old = {};
  const bool there = Find(bytes, old);
  if (there) {
    const bool same = old.mv_size == buffer.size() && std::memcmp(old.mv_data, buffer.data(), old.mv_size) == 0;
    if (same) return;
    totals_.checksums -= ChecksumIn(old);
  } else {
    ++totals_.records;
  }
  if (error_ != MDB_SUCCESS) return;
  totals_.checksums += checksum;
  MDB_val name = ValueOf(bytes);
  MDB_val value = ValueOf(buffer.data(), buffer.size());
  Note(::mdb_cursor_put(cursor_, &name, &value, there ? MDB_CURRENT : 0));
}

void Transaction::Erase(const Key& key) {
  const CrashPoints points(Step::kEraseRecord);
  MDB_val old = {};
  if (!Find(ToBytes(key), old)) return;
  --totals_.records;
  totals_.checksums -= ChecksumIn(old);
  Note(::mdb_cursor_del(cursor_, 0));
}

void Transaction::EraseUnless(absl::FunctionRef<bool(const Key&)> wanted) {
  std::vector<Key> unwanted;
  MDB_val name = {};
  MDB_val value = {};
  for (MDB_cursor_op step = MDB_FIRST; error_ == MDB_SUCCESS; step = MDB_NEXT) {
    const int error = ::mdb_cursor_get(cursor_, &name, &value, step);
    if (error == MDB_NOTFOUND) break;
    Note(error);
    if (error != MDB_SUCCESS) break;
    const std::optional<Key> key = KeyFromBytes({static_cast<const char*>(name.mv_data), name.mv_size});
    if (key && !wanted(*key)) unwanted.push_back(*key);
  }
  for (const Key& key : unwanted) Erase(key);
}

int Transaction::Finish(v1::Header header) {
  const CrashPoints points(Step::kFinishTransaction);
  const Totals all = totals_;
  header.set_records(all.records);
  header.set_checksums(all.checksums);
  Put({Kind::kHeader}, header);
  totals_ = all;
  if (error_ == MDB_SUCCESS) error_ = ::mdb_txn_commit(std::exchange(transaction_, nullptr));
  return error_;
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path) {
  const CrashPoints points(Step::kCreateFile);
  ::unlink(path.c_str());
  MDB_env* env = nullptr;
  const int created = ::mdb_env_create(&env);
  if (created != MDB_SUCCESS) return absl::InternalError(absl::StrCat(path, ": ", ::mdb_strerror(created)));
  std::unique_ptr<RecordFile> file(new RecordFile(path, env));
  // A crash of the process loses nothing of what is written to a shared mapping, and one of the machine takes a tmpfs
  // with it. LMDB's locks are left out: one process has the store (commit_mark.h).
  constexpr unsigned kFlags = MDB_NOSUBDIR | MDB_WRITEMAP | MDB_NOSYNC | MDB_NOLOCK;
  int error = ::mdb_env_set_mapsize(env, kFirstSize);
  if (error == MDB_SUCCESS) error = ::mdb_env_open(env, path.c_str(), kFlags, kMode);
  if (error != MDB_SUCCESS) return file->Failed("cannot be made", error);
  if (absl::Status allocated = file->Allocate(kFirstSize); !allocated.ok()) return allocated;
  return file;
}

RecordFile::~RecordFile() { ::mdb_env_close(env_); }

absl::Status RecordFile::Commit(const v1::Header& header, absl::FunctionRef<void(Transaction&)> change) {
  while (true) {
    int error = MDB_SUCCESS;
    {
      Transaction transaction(env_, totals_, workspace_);
      change(transaction);
      error = transaction.Finish(header);
      if (error == MDB_SUCCESS) totals_ = transaction.totals();
    }
    if (error == MDB_SUCCESS) return absl::OkStatus();
    if (error != MDB_MAP_FULL) return Failed("cannot be written", error);
    if (absl::Status grown = Grow(); !grown.ok()) return grown;
  }
}

size_t RecordFile::NextSize() const { return std::min(kGreatestSize, size_ + std::max(kFirstSize, size_ / 2)); }

absl::Status RecordFile::CheckRoom() const {
  if (size_ >= kGreatestSize) {
    return absl::ResourceExhaustedError(absl::StrCat(path_, ": has ", size_, " bytes, and more than ", kGreatestSize,
                                                     " are not given to it; end sessions or lower their limits"));
  }
  struct statvfs system = {};
  // A file system without a limit reports no blocks; there, growing itself must fail.
  if (::statvfs(path_.c_str(), &system) != 0 || system.f_blocks == 0) return absl::OkStatus();
  const bool fits = system.f_bavail * system.f_frsize >= NextSize() - size_;
  return fits ? absl::OkStatus() : Failed("cannot grow", ENOSPC);
}

absl::Status RecordFile::Grow() {
  const CrashPoints points(Step::kGrowFile);
  // Allocating until the file system is full would take time and the room of others.
  if (absl::Status room = CheckRoom(); !room.ok()) return room;
  const size_t larger = NextSize();
  if (absl::Status allocated = Allocate(larger); !allocated.ok()) return allocated;
  const int error = ::mdb_env_set_mapsize(env_, larger);
  return error == MDB_SUCCESS ? absl::OkStatus() : Failed("cannot be mapped", error);
}

absl::Status RecordFile::Allocate(size_t size) {
  mdb_filehandle_t fd = -1;
  int error = ::mdb_env_get_fd(env_, &fd);
  if (error == MDB_SUCCESS) {
    do {
      error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
    } while (error == EINTR);
  }
  if (error != MDB_SUCCESS) return Failed("cannot grow", error);
  size_ = size;
  return absl::OkStatus();
}

absl::Status RecordFile::MoveTo(const std::string& path) {
  const CrashPoints points(Step::kMoveFile);
  if (std::rename(path_.c_str(), path.c_str()) != 0) return Failed("cannot be renamed", errno);
  path_ = path;
  return absl::OkStatus();
}

absl::Status RecordFile::Failed(const char* what, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const std::string message = absl::StrCat(path_, ": ", what, ": ", ::mdb_strerror(error));
  if (!full) return absl::InternalError(message);
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "; make room on its file system (a tmpfs grows by mount -o remount,size=...)"));
}

}  // namespace rdmabroker::store
