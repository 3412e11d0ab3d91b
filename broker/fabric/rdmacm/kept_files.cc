// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/kept_files.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Each waits for as long as a supervisor with much to do needs, and all of them together less than systemd lets a
// service start (TimeoutStartSec=).
constexpr int kTries = 3;

}  // namespace

KeptFiles::KeptFiles(DescriptorKeep& keep, std::string prefix)
    : keep_(keep), prefix_(std::move(prefix)), old_(keep.Take(prefix_)) {
  for (const KeptDescriptor& old : old_) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(old.name.substr(prefix_.size()), &number)) last_ = std::max(last_, number);
  }
}

void KeptFiles::Keep(int file) {
  ForgetOwn();
  own_ = prefix_ + std::to_string(++last_);
  keep_.Keep(own_, file);
}

absl::Status KeptFiles::KeepSurely(int file) {
  absl::Status kept;
  for (int i = 0; i < kTries; ++i) {
    kept = keep_.KeepSurely(own_, file);
    if (kept.ok()) return kept;
    if (absl::IsUnavailable(kept)) {
      LogError("the supervisor has gone, and connections end with this process", {{"name", own_}});
      return absl::OkStatus();
    }
  }
  return absl::Status(
      kept.code(),
      absl::StrCat(own_, ": the supervisor may not keep it, and what is moved there could be lost: ", kept.message()));
}

void KeptFiles::ForgetOwn() {
  if (!own_.empty()) keep_.Forget(std::exchange(own_, {}));
}

void KeptFiles::GiveUpOwn() {
  if (!own_.empty()) keep_.ForgetNow(std::exchange(own_, {}));
}

int KeptFiles::Migrate(KernelId id, const CmFile& file) const {
  int error = ENOENT;
  for (const KeptDescriptor& old : old_) {
    error = file.Migrate(id, old.fd.get());
    if (error == 0 || error == ENOENT) break;
  }
  return error;
}

std::vector<UniqueFd> KeptFiles::GiveUpOld() {
  std::vector<UniqueFd> files;
  for (KeptDescriptor& old : std::exchange(old_, {})) {
    keep_.Forget(old.name);
    files.push_back(std::move(old.fd));
  }
  return files;
}

}  // namespace rdmabroker
