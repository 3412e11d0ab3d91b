// SPDX-License-Identifier: Apache-2.0

#include "tests/keeper/supervised_script.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

// Longer than anything takes that does not fail.
constexpr absl::Duration kPatience = absl::Seconds(30);

UniqueFd FileWith(absl::string_view contents) {
  UniqueFd file(::memfd_create("stored", MFD_CLOEXEC));
  if (::write(file.get(), contents.data(), contents.size()) != static_cast<ssize_t>(contents.size())) file.Reset();
  return file;
}

UniqueFd HungUpPipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return UniqueFd();
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

std::string ContentsOf(int fd) {
  char contents[100];
  const ssize_t length = ::pread(fd, contents, sizeof contents, 0);
  return std::string(contents, length > 0 ? static_cast<size_t>(length) : 0);
}

std::string CodeOf(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

}  // namespace

std::string SupervisedScript::Kept() {
  std::vector<std::string> all;
  for (const KeptDescriptor& kept : supervisor_.TakeKept()) {
    all.push_back(absl::StrCat(kept.name, "=", ContentsOf(kept.fd.get())));
  }
  std::sort(all.begin(), all.end());
  return absl::StrCat("kept: ", absl::StrJoin(all, " "));
}

std::string SupervisedScript::Obey(absl::string_view order) {
  const std::vector<std::string> words = absl::StrSplit(order, ' ');
  const std::string& verb = words.front();
  if (verb == "there") return supervisor_.IsThere() ? "yes" : "no";
  if (verb == "interval") return absl::FormatDuration(supervisor_.watchdog_interval());
  if (verb == "room") return absl::StrCat(supervisor_.most_kept());
  if (verb == "ready") return CodeOf(supervisor_.Ready());
  if (verb == "stopping") return CodeOf(supervisor_.Stopping());
  if (verb == "ping") return CodeOf(supervisor_.PingWatchdog());
  if (verb == "barrier") return CodeOf(supervisor_.Barrier(kPatience));
  if (verb == "status") return CodeOf(supervisor_.ShowStatus(std::string(order.substr(order.find(' ') + 1))));
  if (verb == "kept") return Kept();
  if (verb == "remove" && words.size() == 2) return CodeOf(supervisor_.Remove(words[1]));
  if (verb == "store" && words.size() == 3) return CodeOf(supervisor_.Store(words[1], FileWith(words[2]).get()));
  if (verb == "store-hungup" && words.size() == 2) return CodeOf(supervisor_.Store(words[1], HungUpPipe().get()));
  if (verb == "twice" && words.size() == 4) {
    const UniqueFd file = FileWith(words[3]);
    const UniqueFd duplicate(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    const absl::Status first = supervisor_.Store(words[1], file.get());
    return CodeOf(first.ok() ? supervisor_.Store(words[2], duplicate.get()) : first);
  }
  return "";
}

}  // namespace rdmabroker
