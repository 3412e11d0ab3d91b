// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_MAPPED_FILE_H_
#define CLIENT_EXAMPLES_MAPPED_FILE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace rdmabroker::examples {

// A file in memory.
class MappedFile {
 public:
  // What is there, to be read. INVALID_ARGUMENT for an empty file, which cannot be registered.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  // A new file of `size` bytes in place of what was there; what is written to the memory is the file's.
  static absl::StatusOr<MappedFile> Create(const std::string& path, uint64_t size);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<uint8_t> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<uint8_t> bytes) : bytes_(bytes) {}

  std::span<uint8_t> bytes_;
};

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_MAPPED_FILE_H_
