// SPDX-License-Identifier: Apache-2.0

#include "broker/store/commit_mark.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "broker/crash_points/crash_points.h"
#include "broker/store/format.h"

namespace rdmabroker::store {
namespace {

// The number and its checksum, both with the least significant byte first.
using Content = std::array<uint64_t, 2>;

Content ContentFor(uint64_t commit) {
  const uint64_t number = ::htole64(commit);
  return {number, ::htole64(ChecksumOf("last_commit", {reinterpret_cast<const char*>(&number), sizeof number}))};
}

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::InternalError(absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<CommitMark> CommitMark::Open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return SystemError(path, "cannot be opened");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(path, "cannot be locked");
    return absl::UnavailableError(
        absl::StrCat(path, ": another broker has this store; end that one, or give this one a directory of its own"));
  }
  Content content = {};
  const ssize_t size = ::pread(file.get(), content.data(), sizeof content, 0);
  if (size < 0) return SystemError(path, "cannot be read");
  CommitMark mark(path, std::move(file));
  if (size == 0) return mark;
  const uint64_t commit = ::le64toh(content[0]);
  mark.commit_ = content == ContentFor(commit) ? std::optional(commit) : std::nullopt;
  return mark;
}

absl::Status CommitMark::Set(uint64_t commit) {
  const CrashPoints points(Step::kMark);
  const Content content = ContentFor(commit);
  if (::pwrite(file_.get(), content.data(), sizeof content, 0) != sizeof content) {
    return SystemError(path_, "cannot be written");
  }
  commit_ = commit;
  return absl::OkStatus();
}

}  // namespace rdmabroker::store
