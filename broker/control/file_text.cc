// SPDX-License-Identifier: Apache-2.0

#include "broker/control/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

absl::Status Unreadable(const std::string& name, const char* cause = std::strerror(errno)) {
  return absl::NotFoundError(absl::StrCat(name, ": cannot be read: ", cause));
}

}  // namespace

absl::StatusOr<std::string> ReadAll(int fd, const std::string& name, size_t most) {
  if (::lseek(fd, 0, SEEK_SET) != 0) return Unreadable(name);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t length = ::read(fd, buffer, sizeof buffer);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return Unreadable(name);
    if (length == 0) return text;
    text.append(buffer, static_cast<size_t>(length));
    if (text.size() > most) return absl::InvalidArgumentError(absl::StrCat(name, ": is longer than ", most, " bytes"));
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most) {
  // First: to open a pipe is to wait for whoever writes into it, for ever where nobody does.
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return Unreadable(path);
  if (!S_ISREG(status.st_mode)) return Unreadable(path, "it is no regular file");
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? ReadAll(file.get(), path, most) : Unreadable(path);
}

}  // namespace rdmabroker
