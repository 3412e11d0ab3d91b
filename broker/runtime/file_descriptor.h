// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_FILE_DESCRIPTOR_H_
#define BROKER_RUNTIME_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace rdmabroker {

// Owns a descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_FILE_DESCRIPTOR_H_
