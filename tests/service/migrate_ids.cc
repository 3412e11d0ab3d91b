// SPDX-License-Identifier: Apache-2.0

// The least that a new process must do to go on with the kernel's ids of the one before: moves so many from one rdma_cm
// file to another, and prints how many milliseconds that has taken.
//
//   migrate_ids N

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "broker/fabric/rdmacm/cm_file.h"

namespace rdmabroker {
namespace {

// Says what went wrong. 0: nothing.
int Failed(const char* what, int error) {
  if (error != 0) std::cerr << "migrate_ids: " << what << ": " << std::strerror(error) << "\n";
  return error;
}

int Run(uint64_t count) {
  const auto before = CmFile::Open();
  const auto after = CmFile::Open();
  if (!before.ok() || !after.ok()) {
    std::cerr << "migrate_ids: " << before.status() << " " << after.status() << "\n";
    return 1;
  }
  std::vector<KernelId> ids(count);
  // A cookie is never 0.
  for (uint64_t i = 0; i < count; ++i) {
    if (Failed("CREATE_ID", (*before)->Create(i + 1, &ids[i])) != 0) return 1;
  }
  const auto start = std::chrono::steady_clock::now();
  for (const KernelId id : ids) {
    if (Failed("MIGRATE_ID", (*after)->Migrate(id, (*before)->descriptor())) != 0) return 1;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::cout << took.count() << "\n";
  return 0;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  const uint64_t count = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (count == 0) {
    std::cerr << "Usage: migrate_ids N\n";
    return 2;
  }
  return rdmabroker::Run(count);
}
