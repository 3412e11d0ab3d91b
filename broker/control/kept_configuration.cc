// SPDX-License-Identifier: Apache-2.0

#include "broker/control/kept_configuration.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/string_view.h"
#include "broker/control/configuration.h"
#include "broker/control/file_text.h"
#include "broker/log/log.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

// No other descriptors have names that begin with an "f".
constexpr char kName[] = "file.configuration";

// MFD_NOEXEC_SEAL of linux/memfd.h, known since Linux 6.3.
constexpr unsigned kNoExecSeal = 8;

// Nobody changes it any more, neither its bytes nor its length.
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

absl::StatusOr<UniqueFd> MakeSealed(const std::string& text) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create(kName, kFlags | kNoExecSeal));
  if (!file && errno == EINVAL) file.Reset(::memfd_create(kName, kFlags));
  if (!file) return absl::ErrnoToStatus(errno, "memory");
  for (absl::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0) return absl::ErrnoToStatus(errno, "memory");
    rest.remove_prefix(static_cast<size_t>(written));
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return absl::ErrnoToStatus(errno, "seals");
  return file;
}

// A file of another kind could change, or never end, under whoever reads it.
std::optional<std::string> TextOf(int fd) {
  if ((::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) return std::nullopt;
  absl::StatusOr<std::string> text = ReadAll(fd, kName, kMaxConfigurationBytes);
  return text.ok() ? std::optional(*std::move(text)) : std::nullopt;
}

}  // namespace

KeptConfiguration::KeptConfiguration(DescriptorKeep& keep) : keep_(keep) {
  const std::vector<KeptDescriptor> inherited = keep.Take(kName);
  if (inherited.size() == 1 && inherited.front().name == kName) former_ = TextOf(inherited.front().fd.get());
  if (former_) {
    kept_ = former_;
    return;
  }
  for (const KeptDescriptor& none : inherited) keep_.ForgetNow(none.name);
}

void KeptConfiguration::Keep(const std::string& text) {
  if (!keep_.IsThere() || kept_ == text) return;
  const absl::StatusOr<UniqueFd> file = MakeSealed(text);
  if (!file.ok()) {
    LogWarning("configuration not kept", {{"cause", file.status().message()}});
    return;
  }
  // Of two a successor would not know which.
  if (kept_) keep_.ForgetNow(kName);
  keep_.Keep(kName, file->get());
  kept_ = text;
}

}  // namespace rdmabroker
