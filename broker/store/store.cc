// SPDX-License-Identifier: Apache-2.0

#include "broker/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "broker/crash_points/crash_points.h"
#include "broker/store/entry_reader.h"
#include "broker/store/format.h"
#include "broker/store/record_codec.h"
#include "broker/store/record_file.h"
#include "broker/store/record_loader.h"

namespace rdmabroker {
namespace {

using store::Kind;
using store::RecordFile;
using store::StoredAs;
using store::Transaction;

constexpr char kDamaged[] = ".damaged-";
// Enough to see whether they have something in common; each takes memory.
constexpr size_t kDamagedKept = 3;
// Every fourth commit is tried although there seems to be no room.
constexpr int kTryEach = 4;

template <typename Record>
void Put(Transaction& transaction, uint64_t id, const Record& record) {
  using Message = typename StoredAs<Record>::Message;
  transaction.PutMade<Message>({StoredAs<Record>::kKind, id},
                               [&record](Message* message) { store::ToProto(record, message); });
}

void Put(Transaction& transaction, Kind kind, uint64_t id, const std::string& record) {
  transaction.PutMade<store::v1::FabricRecord>(
      {kind, id}, [&record](store::v1::FabricRecord* message) { message->set_record(record); });
}

template <typename Id>
void PutAll(Transaction& transaction, Kind kind, const Table<Id, std::string>& of_fabrics) {
  for (const auto& [id, record] : of_fabrics) Put(transaction, kind, id.value(), record);
}

template <typename Id>
void PutChanged(Transaction& transaction, Kind kind, const Table<Id, std::string>& of_fabrics,
                const std::vector<Id>& changed) {
  for (const Id id : changed) {
    if (const auto found = of_fabrics.find(id); found != of_fabrics.end()) {
      Put(transaction, kind, id.value(), found->second);
    } else {
      transaction.Erase({kind, id.value()});
    }
  }
}

void PutCounters(Transaction& transaction, const Records& records) {
  store::v1::Counters message;
  store::ToProto(records.counters, &message);
  transaction.Put({Kind::kCounters}, message);
}

store::v1::Header HeaderOf(const Records& records, uint64_t commit, const std::string& boot_id) {
  store::v1::Header header;
  header.set_boot_id(boot_id);
  header.set_format_version(store::kFormatVersion);
  header.set_commit(commit);
  header.set_now(store::ToProto(records.now));
  header.set_lineage(records.lineage);
  return header;
}

const SessionRecord* Find(const Records& records, SessionId id) {
  const auto found = records.sessions.find(id);
  return found == records.sessions.end() ? nullptr : &found->second;
}

// Whether the store of these has something under `key`; of a session's lists, whether it may have.
bool Has(const Records& records, const FabricRecords& of_fabrics, const store::Key& key) {
  if (key.kind == Kind::kHeader || key.kind == Kind::kCounters) return true;
  if (key.kind == Kind::kAnswer || key.kind == Kind::kEvent) return records.sessions.contains(SessionId(key.id));
  if (key.kind == Kind::kFabricEndpoint) return of_fabrics.endpoints.contains(EndpointId(key.id));
  if (key.kind == Kind::kFabricConnection) return of_fabrics.connections.contains(ConnectionId(key.id));
  bool has = false;
  ForEachTable(
      [&](const auto& table) {
        using Of = std::decay_t<decltype(table)>;
        if (StoredAs<typename Of::mapped_type>::kKind == key.kind) has = table.contains(typename Of::key_type(key.id));
      },
      records);
  return has;
}

// All of both, where `lists` says what there is of the sessions' lists already.
void PutEverything(Transaction& transaction, const Records& records, const FabricRecords& of_fabrics,
                   const store::SessionLists& lists) {
  PutCounters(transaction, records);
  ForEachTable(
      [&](const auto& table) {
        for (const auto& [id, record] : table) Put(transaction, id.value(), record);
      },
      records);
  for (const auto& [id, session] : records.sessions) lists.Write(transaction, id, &session);
  PutAll(transaction, Kind::kFabricEndpoint, of_fabrics.endpoints);
  PutAll(transaction, Kind::kFabricConnection, of_fabrics.connections);
}

// How many records of a file they become, but for the header.
uint64_t CountOf(const Records& records, const FabricRecords& of_fabrics) {
  uint64_t count = 1 + of_fabrics.endpoints.size() + of_fabrics.connections.size();
  ForEachTable([&count](const auto& table) { count += table.size(); }, records);
  for (const auto& [id, session] : records.sessions) count += session.answers.size() + session.events.size();
  return count;
}

store::SessionLists ListsOf(const Records& records) {
  store::SessionLists lists;
  for (const auto& [id, session] : records.sessions) lists.Remember(id, &session);
  return lists;
}

// Names that end in their times are in the order of the times.
void RemoveOldDamaged(const std::string& directory, const std::string& prefix) {
  std::vector<std::string> kept;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (absl::StartsWith(at->path().string(), prefix)) kept.push_back(at->path().string());
  }
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i + kDamagedKept < kept.size(); ++i) ::unlink(kept[i].c_str());
}

}  // namespace

Store::Store(const std::string& directory, store::CommitMark mark, std::string boot_id)
    : directory_(directory),
      path_(absl::StrCat(directory, "/records.mdb")),
      boot_id_(std::move(boot_id)),
      mark_(std::move(mark)),
      last_commit_(mark_.commit().value_or(0)) {}

Store::~Store() = default;

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& directory, std::string boot_id) {
  absl::StatusOr<store::CommitMark> mark = store::CommitMark::Open(absl::StrCat(directory, "/last_commit"));
  if (!mark.ok()) return mark.status();
  return std::unique_ptr<Store>(new Store(directory, *std::move(mark), std::move(boot_id)));
}

absl::StatusOr<Stored> Store::Load() {
  const auto about_file = [this](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path_, ": ", status.message()));
  };
  store::RecordLoader loader;
  const absl::Status read = store::ReadEntries(
      path_, [&loader](std::string_view key, std::string_view value) { return loader.Take(key, value); });
  // Before the mark, which a newer broker may write otherwise.
  if (!read.ok() && !absl::IsNotFound(read) && !absl::IsDataLoss(read)) return read;
  if (!mark_.commit()) return absl::DataLossError(absl::StrCat(directory_, "/last_commit: damaged"));
  const uint64_t made = *mark_.commit();
  if (absl::IsNotFound(read) && made == 0) return Stored{};
  if (absl::IsNotFound(read)) return absl::DataLossError(absl::StrCat(read.message(), ", after ", made, " commits"));
  if (!read.ok()) return read;
  absl::StatusOr<store::RecordLoader::Loaded> loaded = loader.Finish();
  if (!loaded.ok()) return about_file(loaded.status());
  if (loaded->commit != made && loaded->commit != made + 1) {
    return about_file(absl::DataLossError(
        absl::StrCat("damaged: leads to commit ", loaded->commit, ", and ", made, " was the last one")));
  }
  last_commit_ = loaded->commit;
  loaded->stored.boot_id = std::move(loaded->boot_id);
  return std::move(loaded->stored);
}

absl::Status Store::Commit(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                           const FabricChanges& fabric_changes) {
  if (changes == Changes{} && fabric_changes == FabricChanges{} && file_ != nullptr && !behind_) {
    return absl::OkStatus();
  }
  if (absl::Status fits = CheckThatItMayFit(records, of_fabrics); !fits.ok()) return fits;
  // The process before has died between its last commit and this mark. What follows must not lead two further.
  if (mark_.commit() != last_commit_) {
    if (absl::Status marked = mark_.Set(last_commit_); !marked.ok()) return marked;
  }
  absl::Status written = Write(records, changes, of_fabrics, fabric_changes);
  if (written.ok()) written = mark_.Set(last_commit_ + 1);
  if (written.ok()) ++last_commit_;
  // What the failed commit was to change is known to nobody the next time.
  behind_ = !written.ok();
  // Where there was no room the file is as it was; otherwise nobody knows.
  if (behind_ && !absl::IsResourceExhausted(written)) file_ = nullptr;
  return written;
}

absl::Status Store::CheckThatItMayFit(const Records& records, const FabricRecords& of_fabrics) {
  if (!behind_ || file_ == nullptr || CountOf(records, of_fabrics) <= file_->records()) return absl::OkStatus();
  // There may be room without growing: pages of the file are free, or a new file is smaller.
  if (++refusals_ % kTryEach == 0) return absl::OkStatus();
  return file_->CheckRoom();
}

absl::Status Store::Write(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                          const FabricChanges& fabric_changes) {
  if (file_ == nullptr || changes.all) return Rewrite(records, of_fabrics);
  if (!behind_) return Update(records, changes, of_fabrics, fabric_changes);
  absl::Status written = CatchUp(records, of_fabrics);
  // Few records may have room beside the many before, and not among them.
  return absl::IsResourceExhausted(written) ? Rewrite(records, of_fabrics) : written;
}

absl::Status Store::Rewrite(const Records& records, const FabricRecords& of_fabrics) {
  const std::string new_path = absl::StrCat(path_, ".new");
  absl::StatusOr<std::unique_ptr<RecordFile>> file = RecordFile::Create(new_path);
  absl::Status written = file.status();
  if (written.ok()) {
    written = (*file)->Commit(HeaderOf(records, last_commit_ + 1, boot_id_), [&](Transaction& transaction) {
      PutEverything(transaction, records, of_fabrics, store::SessionLists());
    });
  }
  if (written.ok()) written = (*file)->MoveTo(path_);
  if (!written.ok()) {
    ::unlink(new_path.c_str());
    return written;
  }
  lists_ = ListsOf(records);
  file_ = *std::move(file);
  return absl::OkStatus();
}

absl::Status Store::CatchUp(const Records& records, const FabricRecords& of_fabrics) {
  absl::Status written = file_->Commit(HeaderOf(records, last_commit_ + 1, boot_id_), [&](Transaction& transaction) {
    transaction.EraseUnless([&](const store::Key& key) { return Has(records, of_fabrics, key); });
    PutEverything(transaction, records, of_fabrics, lists_);
  });
  if (written.ok()) lists_ = ListsOf(records);
  return written;
}

absl::Status Store::Update(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                           const FabricChanges& fabric_changes) {
  absl::Status written = file_->Commit(HeaderOf(records, last_commit_ + 1, boot_id_), [&](Transaction& transaction) {
    if (changes.counters) PutCounters(transaction, records);
    ForEachTable(
        [&](const auto& table, const auto& ids) {
          using Record = typename std::decay_t<decltype(table)>::mapped_type;
          for (const auto id : ids) {
            const auto found = table.find(id);
            if (found != table.end()) {
              Put(transaction, id.value(), found->second);
            } else {
              transaction.Erase({StoredAs<Record>::kKind, id.value()});
            }
          }
        },
        records, changes);
    for (const SessionId id : changes.sessions) lists_.Write(transaction, id, Find(records, id));
    PutChanged(transaction, Kind::kFabricEndpoint, of_fabrics.endpoints, fabric_changes.endpoints);
    PutChanged(transaction, Kind::kFabricConnection, of_fabrics.connections, fabric_changes.connections);
  });
  if (!written.ok()) return written;
  for (const SessionId id : changes.sessions) lists_.Remember(id, Find(records, id));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Store::SetAside(absl::Time now) {
  const CrashPoints points(Step::kSetAside);
  file_ = nullptr;
  const std::string prefix = absl::StrCat(path_, kDamaged);
  std::string name = absl::StrCat(prefix, absl::FormatTime("%Y%m%dT%H%M%E3SZ", now, absl::UTCTimeZone()));
  if (std::rename(path_.c_str(), name.c_str()) != 0) {
    if (errno != ENOENT) {
      return absl::InternalError(absl::StrCat(path_, ": cannot be renamed to ", name, ": ", std::strerror(errno)));
    }
    name.clear();
  }
  RemoveOldDamaged(directory_, prefix);
  last_commit_ = 0;
  if (absl::Status set = mark_.Set(0); !set.ok()) return set;
  return name;
}

}  // namespace rdmabroker
