// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/own_namespaces.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "dataplane/unique_fd.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

// Exit status 0 only if, in namespaces of its own, this process can read `file` and does not see what others have.
[[noreturn]] void LookAround(const std::string& file, const std::string& others) {
  std::string wrong = EnterOwnNamespaces();
  std::string text;
  std::ifstream(file) >> text;
  if (text != "text") wrong += " a file below /tmp cannot be read;";
  if (HasOwnTemporaryFiles()) {
    if (std::filesystem::exists(others)) wrong += " what others have in /dev/shm is there;";
    if (!TemporaryFolder().path().starts_with("/dev/shm/")) wrong += " a temporary folder is not in /dev/shm;";
  }
  std::cerr << wrong << "\n";
  std::exit(wrong.empty() ? 0 : 1);
}

// A clone may lie below /tmp, and a test reads files of it by their paths.
TEST(OwnNamespaces, HideOthersSharedMemoryAndNoFileBelowTmp) {
  const TemporaryFolder below_tmp;
  const std::string file = below_tmp.path() + "/file";
  std::ofstream(file) << "text";
  std::string others = "/dev/shm/rdma-broker-XXXXXX";
  ASSERT_TRUE(UniqueFd(::mkstemp(others.data()))) << others;
  // A process of its own, as nothing leads back.
  EXPECT_EXIT(LookAround(file, others), testing::ExitedWithCode(0), "");
  std::filesystem::remove(others);
}

}  // namespace
}  // namespace rdmabroker
