// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_HANGING_FILE_H_
#define TESTS_CONTROL_HANGING_FILE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Has whoever opens a file hang until this object goes, as where a network's file system does not answer. By a lease
// (fcntl(2)), which the kernel ends after 45 s (/proc/sys/fs/lease-break-time). Nobody may have the file open before.
class HangingFile {
 public:
  explicit HangingFile(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    // That somebody opens it is told by a signal: one that ends nobody.
    EXPECT_EQ(::fcntl(file_.get(), F_SETSIG, SIGURG), 0) << std::strerror(errno);
    EXPECT_EQ(::fcntl(file_.get(), F_SETLEASE, F_WRLCK), 0) << std::strerror(errno);
  }
  HangingFile(const HangingFile&) = delete;
  HangingFile& operator=(const HangingFile&) = delete;

 private:
  const UniqueFd file_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_HANGING_FILE_H_
