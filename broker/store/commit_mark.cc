// SPDX-License-Identifier: Apache-2.0

#include "broker/store/commit_mark.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace rdmabroker::store {
namespace {

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
  uint64_t bytes = 0;
  if (::pread(file.get(), &bytes, sizeof bytes, 0) < 0) return SystemError(path, "cannot be read");
  CommitMark mark(path, std::move(file));
  mark.commit_ = ::le64toh(bytes);
  return mark;
}

absl::Status CommitMark::Set(uint64_t commit) {
  const uint64_t bytes = ::htole64(commit);
  if (::pwrite(file_.get(), &bytes, sizeof bytes, 0) != sizeof bytes) return SystemError(path_, "cannot be written");
  commit_ = commit;
  return absl::OkStatus();
}

}  // namespace rdmabroker::store
