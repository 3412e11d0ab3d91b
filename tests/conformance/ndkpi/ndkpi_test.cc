// SPDX-License-Identifier: Apache-2.0

// The cases of NDKPI's assertions on one adapter.
//
//   ndkpi_test fake|iwarp|rxe|siw [GTEST_OPTION ...]

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/conformance/ndkpi/case.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

class CaseTest : public testing::Test {
 public:
  CaseTest(const Surroundings& surroundings, const Case& which) : surroundings_(surroundings), case_(which) {}

  void TestBody() override {
    World world(surroundings_, case_);
    if (!HasFatalFailure()) case_.run(world);
  }

 private:
  const Surroundings& surroundings_;
  const Case& case_;
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: ndkpi_test ADAPTER\n");
    return 64;
  }
  const Surroundings surroundings = Prepare(argv[1]);
  const Cases cases = AllCases();
  for (const Case& which : cases) {
    if (which.core_only && surroundings.adapter != Adapters().front()) continue;
    testing::RegisterTest("Ndkpi", (NameOf(which) + "/" + surroundings.adapter).c_str(), nullptr, nullptr, __FILE__,
                          __LINE__, [&]() -> testing::Test* { return new CaseTest(surroundings, which); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::ndkpi

int main(int argc, char** argv) { return rdmabroker::ndkpi::Run(argc, argv); }
