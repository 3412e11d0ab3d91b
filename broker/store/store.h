// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_STORE_H_
#define BROKER_STORE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/core/changes.h"
#include "broker/core/state.h"
#include "broker/fabric/fabric_records.h"
#include "broker/store/commit_mark.h"
#include "broker/store/session_lists.h"

namespace rdmabroker {
namespace store {
class RecordFile;
}  // namespace store

// What outlives the process.
struct Stored {
  Records records;
  FabricRecords of_fabrics;
  std::string boot_id;  // That of the store that has written them.
};

// Where the records of a core and its fabrics outlive their process: a directory, of a tmpfs, with
//
//   records.mdb              the records (records.proto), in LMDB
//   last_commit              the number of the last commit; locked by the broker that has the store
//   records.mdb.damaged-...  what was set aside, for whoever wants to know why
//
// Its user handles events, commits what they have changed, and then lets their effects out: so nothing has happened
// that the store does not know. One thread at a time. Errors name the file.
class Store {
 public:
  // Takes the lock; looks at no record yet. UNAVAILABLE where another process has it.
  // `boot_id` is written with the records, for who loads them: ids of the kernel and times mean nothing after its end.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& directory, std::string boot_id);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The records as of the last commit, and none where there was no commit yet. Changes nothing. It forks: call it
  // before there are other threads.
  //
  // DATA_LOSS where they cannot be told any more: set the store aside, then, and go on without. FAILED_PRECONDITION
  // where a newer broker has written them. INTERNAL where they cannot be read now, as where descriptors or memory are
  // short: they may be sound, so leave them alone. What they say together is for BrokerCore::Restore to check.
  absl::StatusOr<Stored> Load();

  // Makes both records the store's, of which the changes have all that differs from the last time. The first commit
  // writes everything, into a new file that takes the old one's place: nothing relies on pages that another process has
  // written, and those of an older version are replaced at once or not at all.
  //
  // After an error the store is as it was before, and the next commit makes up for it, which costs as much as the
  // first. RESOURCE_EXHAUSTED where there is no room: a new file needs as much again as the records take, as the old
  // one stays until then; one that this process has made, only what has changed. While there are more records than the
  // file has and no room for it to grow, three of four further calls say so without trying, which costs little.
  absl::Status Commit(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                      const FabricChanges& fabric_changes);

  // The number of the last commit, which only rises: a Commit that had nothing to store is none.
  uint64_t last_commit() const { return last_commit_; }

  // Puts what cannot be loaded, or restored, out of the way, under a name that says when (`now` by the calendar); the
  // store is as a new one then. Keeps the newest few of those. Returns the name, empty where there was no file.
  absl::StatusOr<std::string> SetAside(absl::Time now);

 private:
  Store(const std::string& directory, store::CommitMark mark, std::string boot_id);
  // RESOURCE_EXHAUSTED where another try after one that failed is most likely in vain.
  absl::Status CheckThatItMayFit(const Records& records, const FabricRecords& of_fabrics);
  absl::Status Write(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                     const FabricChanges& fabric_changes);
  // All of it, into a new file in the place of the old one; that stays in use where this fails.
  absl::Status Rewrite(const Records& records, const FabricRecords& of_fabrics);
  // All that differs from what `file_` has, whatever has changed.
  absl::Status CatchUp(const Records& records, const FabricRecords& of_fabrics);
  absl::Status Update(const Records& records, const Changes& changes, const FabricRecords& of_fabrics,
                      const FabricChanges& fabric_changes);

  const std::string directory_;
  const std::string path_;  // Of the records.
  const std::string boot_id_;
  store::CommitMark mark_;
  uint64_t last_commit_;
  // None before the first commit, and after one that failed for another reason than that there was no room.
  std::unique_ptr<store::RecordFile> file_;
  store::SessionLists lists_;  // In `file_`.
  int refusals_ = 0;           // By CheckThatItMayFit.
  bool behind_ = false;        // The last commit failed: the records may differ from `file_` in whatever way.
};

}  // namespace rdmabroker

#endif  // BROKER_STORE_STORE_H_
