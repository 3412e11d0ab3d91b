// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_FILE_TEXT_H_
#define BROKER_CONTROL_FILE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace rdmabroker {

// All of a regular file. NOT_FOUND where it cannot be read, INVALID_ARGUMENT where it has more than `most` bytes; both
// with the path. It may block for as long as the file system does.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most);

// The same, of a descriptor, which `name` stands for: from its beginning, wherever it stands.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& name, size_t most);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_FILE_TEXT_H_
