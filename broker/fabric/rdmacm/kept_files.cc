// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/kept_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"

namespace rdmabroker {
namespace {

constexpr char kPrefix[] = "c";

}  // namespace

KeptFiles::KeptFiles(DescriptorKeep& keep) : keep_(keep), old_(keep.Take(kPrefix)) {
  for (const KeptDescriptor& old : old_) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(old.name.substr(sizeof kPrefix - 1), &number)) last_ = std::max(last_, number);
  }
}

void KeptFiles::Keep(int file) {
  ForgetOwn();
  own_ = kPrefix + std::to_string(++last_);
  keep_.Keep(own_, file);
}

void KeptFiles::ForgetOwn() {
  if (!own_.empty()) keep_.Forget(std::exchange(own_, {}));
}

bool KeptFiles::Migrate(KernelId id, const CmFile& file) const {
  return std::any_of(old_.begin(), old_.end(),
                     [&](const KeptDescriptor& old) { return file.Migrate(id, old.fd.get()) == 0; });
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
