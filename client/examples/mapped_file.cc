// SPDX-License-Identifier: Apache-2.0

#include "client/examples/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::examples {
namespace {

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::span<uint8_t>> Map(const std::string& path, int fd, uint64_t size, int protection, int flags) {
  void* memory = ::mmap(nullptr, size, protection, flags, fd, 0);
  if (memory == MAP_FAILED) return SystemError(path, "cannot be mapped");
  return std::span(static_cast<uint8_t*>(memory), size);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return SystemError(path, "cannot be opened");
  struct stat about = {};
  if (::fstat(file.get(), &about) != 0) return SystemError(path, "cannot be looked at");
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  if (about.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty; name a file with content"));
  const auto bytes = Map(path, file.get(), static_cast<uint64_t>(about.st_size), PROT_READ, MAP_PRIVATE);
  if (!bytes.ok()) return bytes.status();
  return MappedFile(*bytes);
}

absl::StatusOr<MappedFile> MappedFile::Create(const std::string& path, uint64_t size) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return SystemError(path, "cannot be created");
  // Space is taken now: a full disk must not end the process at a later write to memory.
  if ((errno = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size))) != 0)
    return SystemError(path, "has no room");
  const auto bytes = Map(path, file.get(), size, PROT_READ | PROT_WRITE, MAP_SHARED);
  if (!bytes.ok()) return bytes.status();
  return MappedFile(*bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace rdmabroker::examples
