// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_MEMORY_FOLDER_H_
#define TESTS_BENCH_MEMORY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/bench/require.h"

namespace rdmabroker::bench {

// A folder on a tmpfs, as the store has in service.
class MemoryFolder {
 public:
  MemoryFolder() { Require(::mkdtemp(path_.data()) != nullptr, path_.c_str()); }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/rdma-broker-XXXXXX";
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_MEMORY_FOLDER_H_
