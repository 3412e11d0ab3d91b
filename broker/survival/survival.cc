// SPDX-License-Identifier: Apache-2.0

#include "broker/survival/survival.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "broker/core/new_ids.h"
#include "broker/fabric/unknown_records.h"
#include "broker/log/log.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/randomness.h"

namespace rdmabroker {
namespace {

// Nobody else's: sessions' secrets are in it, and what is in it is believed.
absl::Status MakeDirectory(const std::string& directory) {
  constexpr char kKey[] = "name another as control.state_directory";
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat(directory, ": cannot be made; make it, or ", kKey));
  }
  struct stat found = {};
  if (::lstat(directory.c_str(), &found) != 0) return absl::ErrnoToStatus(errno, directory);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": is not a folder of the daemon's user alone (mode 0700); make it one, or ", kKey));
  }
  return absl::OkStatus();
}

// Which start of the system a directory's records are of: a tmpfs goes with it, so that it need not say.
absl::StatusOr<std::string> BootIdFor(const std::string& directory) {
  constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";  // random(4).
  struct statfs on = {};
  if (::statfs(directory.c_str(), &on) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(directory, ": statfs"));
  std::string boot_id;
  if (on.f_type == TMPFS_MAGIC || std::getline(std::ifstream(kBootId), boot_id)) return boot_id;
  return absl::InternalError(absl::StrCat(directory, ": is on no tmpfs, and ", kBootId,
                                          " cannot be read, which would tell whether its records are of before the "
                                          "system's start; name a folder of a tmpfs as control.state_directory"));
}

// Random, and not 0.
uint64_t NewNumber() {
  uint64_t number = 0;
  std::memcpy(&number, RandomSecret().data(), sizeof number);
  return std::max(number, uint64_t{1});
}

}  // namespace

Survival::Survival(std::unique_ptr<Store> store, const Limits& limits, DescriptorKeep& descriptors)
    : store_(std::move(store)), descriptors_(descriptors), core_(limits, NewNumber(), NewNumber()) {}

absl::StatusOr<std::unique_ptr<Survival>> Survival::Open(const std::string& directory, const Limits& limits,
                                                         DescriptorKeep& descriptors) {
  if (absl::Status made = MakeDirectory(directory); !made.ok()) return made;
  const absl::StatusOr<std::string> boot_id = BootIdFor(directory);
  if (!boot_id.ok()) return boot_id.status();
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(directory, *boot_id);
  if (!store.ok()) return store.status();
  std::unique_ptr<Survival> self(new Survival(*std::move(store), limits, descriptors));
  if (absl::Status restored = self->Restore(limits, *boot_id); !restored.ok()) return restored;
  return self;
}

absl::Status Survival::Restore(const Limits& limits, const std::string& boot_id) {
  absl::StatusOr<Stored> stored = store_->Load();
  if (absl::IsDataLoss(stored.status())) return SetAside(stored.status());
  if (!stored.ok()) return stored.status();
  // The connections are no more.
  if (stored->boot_id != boot_id) return absl::OkStatus();
  if (stored->records.now > Loop::Now()) return SetAside(absl::DataLossError("the records are of the future"));
  // An empty store has none.
  const bool empty = stored->records.lineage == 0;
  if (empty) stored->records.lineage = core_.records().lineage;
  if (stored->records.counters.id_key == 0) SetKeyOfIds(core_.records().counters.id_key, stored->records.counters);
  absl::StatusOr<BrokerCore> core = BrokerCore::Restore(limits, stored->records);
  if (!core.ok()) return SetAside(core.status());
  begins_anew_ = empty;
  core_ = *std::move(core);
  of_fabrics_ = std::move(stored->of_fabrics);
  const size_t endpoints = of_fabrics_.endpoints.size();
  const size_t connections = of_fabrics_.connections.size();
  DropUnknown(core_.records(), &of_fabrics_);
  if (of_fabrics_.endpoints.size() < endpoints || of_fabrics_.connections.size() < connections) {
    LogInfo("what fabrics have stored of objects that had ended is dropped",
            {{"endpoints", endpoints - of_fabrics_.endpoints.size()},
             {"connections", connections - of_fabrics_.connections.size()}});
  }
  return absl::OkStatus();
}

absl::Status Survival::SetAside(const absl::Status& cause) {
  const absl::StatusOr<std::string> name = store_->SetAside(absl::Now());
  if (!name.ok()) return name.status();
  LogError("the store is of no use, and sessions and listeners before are lost",
           {{"cause", cause.message()}, {"set_aside", *name}});
  return absl::OkStatus();
}

bool Survival::takes_over() const {
  const Records& records = core_.records();
  return !records.sessions.empty() || !records.endpoints.empty() || !records.connections.empty() ||
         descriptors_.HasInheritedBesides(".sock");
}

bool Survival::Commit(BrokerCore& core) {
  const Changes changes = core.TakeChanges();
  const uint64_t before = store_->last_commit();
  // Asked for only where somebody wants to know: this is where the broker is busiest.
  const absl::Time began = heard_ ? Loop::Now() : absl::Time();
  const absl::Status committed = store_->Commit(core.records(), changes, of_fabrics_, TakeChanges(of_fabrics_));
  const bool tried = !committed.ok() || store_->last_commit() != before;
  if (heard_ && tried) heard_(Loop::Now() - began, committed.ok());
  if (committed.ok()) {
    descriptors_.Committed();
    return true;
  }
  if (const auto left_out = failures_.Pass(Loop::Now())) {
    LogError("changes not stored, so that a crash would lose them",
             {{"cause", committed.message()}, {"left_out", *left_out}});
  }
  return false;
}

}  // namespace rdmabroker
