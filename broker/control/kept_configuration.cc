// SPDX-License-Identifier: Apache-2.0

#include "broker/control/kept_configuration.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

// No other descriptors have names that begin with an "f". What follows is a number that grows: a process may die when
// it has kept the next one and not yet forgotten this one.
constexpr char kNames[] = "file.configuration.";
std::string NameOf(uint64_t number) { return absl::StrCat(kNames, number); }

// Of the supervisor's room: it is one descriptor, without which a slip of an editor costs every connection.
constexpr double kShare = 1;

// MFD_NOEXEC_SEAL of linux/memfd.h, known since Linux 6.3.
constexpr unsigned kNoExecSeal = 8;

// Nobody changes it any more, neither its bytes nor its length.
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

absl::StatusOr<UniqueFd> MakeSealed(const std::string& text) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create("configuration", kFlags | kNoExecSeal));
  if (!file && errno == EINVAL) file.Reset(::memfd_create("configuration", kFlags));
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
  const absl::StatusOr<std::string> all = ReadAll(fd, "the former configuration", kMostBytes);
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
  uint64_t latest = 0;
  for (const KeptDescriptor& inherited : keep.Take(kNames)) {
    stale_.push_back(inherited.name);
    uint64_t number = 0;
    if (!absl::SimpleAtoi(inherited.name.substr(sizeof kNames - 1), &number)) continue;
    last_number_ = std::max(last_number_, number);
    std::optional<Former> read = Read(inherited.fd.get());
    if (!read || number <= latest) continue;
    latest = number;
    former_ = std::move(read);
  }
  if (!former_) return;
  kept_ = former_;
  kept_name_ = NameOf(latest);
  std::erase(stale_, kept_name_);
}

void KeptConfiguration::Keep(const std::string& text, const AccountNumbers& numbers) {
  if (!keep_.IsThere()) return;
  Former wanted = {text, numbers};
  if (kept_ != wanted && !KeepInstead(std::move(wanted))) return;
  // No sooner: whenever this process dies, there is one.
  for (const std::string& name : std::exchange(stale_, {})) keep_.ForgetNow(name);
}

bool KeptConfiguration::KeepInstead(Former wanted) {
  const absl::StatusOr<UniqueFd> file =
      MakeSealed(absl::StrCat(Lines(kUser, wanted.numbers.users), Lines(kGroup, wanted.numbers.groups), wanted.text));
  if (!file.ok()) {
    LogWarning("configuration not kept", {{"cause", file.status().message()}});
    return false;
  }
  // What the supervisor is told it does in order, so that it needs no wait.
  const std::string name = NameOf(last_number_ + 1);
  if (!keep_.KeepIfThereIsRoom(name, file->get(), kShare)) return false;
  ++last_number_;
  if (kept_) stale_.push_back(kept_name_);
  kept_ = std::move(wanted);
  kept_name_ = name;
  return true;
}

}  // namespace rdmabroker
