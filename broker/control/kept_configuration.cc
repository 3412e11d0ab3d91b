// SPDX-License-Identifier: Apache-2.0

#include "broker/control/kept_configuration.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

// The numbers stand before the text, in lines such as "user 1000 alice": no TOML begins with one.
constexpr char kUser[] = "user";
constexpr char kGroup[] = "group";

// A name takes at most five times the room that it has in the text, however short it is.
constexpr size_t kMostBytes = 8 * kMaxConfigurationBytes;

std::string Lines(const char* kind, const std::map<std::string, uint32_t>& numbers) {
  std::string lines;
  for (const auto& [name, number] : numbers) absl::StrAppend(&lines, kind, " ", number, " ", name, "\n");
  return lines;
}

// Takes the lines of that kind from the beginning.
std::map<std::string, uint32_t> TakeLines(const char* kind, absl::string_view& rest) {
  std::map<std::string, uint32_t> numbers;
  for (;;) {
    const size_t end = rest.find('\n');
    const std::vector<std::string> words = absl::StrSplit(rest.substr(0, end), absl::MaxSplits(' ', 2));
    uint32_t number = 0;
    if (end == rest.npos || words.size() != 3 || words[0] != kind || !absl::SimpleAtoi(words[1], &number)) {
      return numbers;
    }
    numbers[words[2]] = number;
    rest.remove_prefix(end + 1);
  }
}

// A file of another kind could change, or never end, under whoever reads it.
std::optional<KeptConfiguration::Former> Read(int fd) {
  if ((::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) return std::nullopt;
  const absl::StatusOr<std::string> all = ReadAll(fd, kName, kMostBytes);
  if (!all.ok()) return std::nullopt;
  absl::string_view rest = *all;
  KeptConfiguration::Former former;
  former.numbers.users = TakeLines(kUser, rest);
  former.numbers.groups = TakeLines(kGroup, rest);
  former.text = std::string(rest);
  return former.text.size() > kMaxConfigurationBytes ? std::nullopt : std::optional(std::move(former));
}

}  // namespace

KeptConfiguration::KeptConfiguration(DescriptorKeep& keep) : keep_(keep) {
  const std::vector<KeptDescriptor> inherited = keep.Take(kName);
  if (inherited.size() == 1 && inherited.front().name == kName) former_ = Read(inherited.front().fd.get());
  if (former_) {
    kept_ = former_;
    return;
  }
  for (const KeptDescriptor& none : inherited) keep_.ForgetNow(none.name);
}

void KeptConfiguration::Keep(const std::string& text, const AccountNumbers& numbers) {
  Former wanted = {text, numbers};
  if (!keep_.IsThere() || kept_ == wanted) return;
  const absl::StatusOr<UniqueFd> file =
      MakeSealed(absl::StrCat(Lines(kUser, numbers.users), Lines(kGroup, numbers.groups), text));
  if (!file.ok()) {
    LogWarning("configuration not kept", {{"cause", file.status().message()}});
    return;
  }
  // Of two a successor would not know which.
  if (kept_) keep_.ForgetNow(kName);
  keep_.Keep(kName, file->get());
  kept_ = std::move(wanted);
}

}  // namespace rdmabroker
