// SPDX-License-Identifier: Apache-2.0

#include "tests/control/temporary_folder.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rdmabroker {
namespace {

std::string& Place() {
  static auto* const kPlace = new std::string("/tmp");
  return *kPlace;
}

}  // namespace

void TemporaryFolder::MakeIn(const std::string& place) { Place() = place; }

TemporaryFolder::TemporaryFolder() : path_(Place() + "/rdma-broker-XXXXXX") {
  if (::mkdtemp(path_.data()) != nullptr && ::chmod(path_.c_str(), 0755) == 0) return;
  std::perror(path_.c_str());
  std::abort();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace rdmabroker
