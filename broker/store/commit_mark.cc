// SPDX-License-Identifier: Apache-2.0

#include "broker/store/commit_mark.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "broker/crash_points/crash_points.h"
#include "broker/store/format.h"

namespace rdmabroker::store {
namespace {

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::InternalError(absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

}  // namespace

void CommitMark::Unmap::operator()(Content* content) const { ::munmap(content, sizeof *content); }

CommitMark::Content CommitMark::ContentFor(uint64_t commit) {
  const uint64_t number = ::htole64(commit);
  return {number, ::htole64(ChecksumOf("last_commit", {reinterpret_cast<const char*>(&number), sizeof number}))};
}

std::optional<uint64_t> CommitMark::CommitIn(const Content& content) {
  const uint64_t commit = ::le64toh(content[0]);
  if (content == ContentFor(commit)) return commit;
  // The first call of Set was interrupted.
  if (content[1] == 0) return 0;
  if (content[1] == ContentFor(commit - 1)[1]) return commit - 1;
  return std::nullopt;
}

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
  mark.commit_ = size == sizeof content ? CommitIn(content) : std::nullopt;
  return mark;
}

absl::Status CommitMark::Map() {
  // Writing to a page that a full file system cannot provide would end the process.
  if (const int error = ::posix_fallocate(file_.get(), 0, sizeof(Content)); error != 0) {
    errno = error;
    return SystemError(path_, "cannot be written");
  }
  void* const mapped = ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return SystemError(path_, "cannot be mapped");
  mapped_.reset(static_cast<Content*>(mapped));
  return absl::OkStatus();
}

absl::Status CommitMark::Set(uint64_t commit) {
  const CrashPoints points(Step::kMark);
  if (mapped_ == nullptr) {
    if (absl::Status mapped = Map(); !mapped.ok()) return mapped;
  }
  const Content content = ContentFor(commit);
  // In this order, after all that the commit has written.
  for (size_t i = 0; i < content.size(); ++i) {
    std::atomic_ref((*mapped_)[i]).store(content[i], std::memory_order_release);
  }
  commit_ = commit;
  return absl::OkStatus();
}

}  // namespace rdmabroker::store
