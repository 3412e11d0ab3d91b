// SPDX-License-Identifier: Apache-2.0

#include "broker/control/file_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

absl::Status Unreadable(const std::string& name) {
  return absl::NotFoundError(absl::StrCat(name, ": cannot be read: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> ReadAll(int fd, const std::string& name, size_t most) {
  // What has no beginning, as a pipe, is read from where it is.
  (void)::lseek(fd, 0, SEEK_SET);
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
  // A folder can be opened, but not read.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  return file ? ReadAll(file.get(), path, most) : Unreadable(path);
}

}  // namespace rdmabroker
