// SPDX-License-Identifier: Apache-2.0

// Public functions for which memory, descriptors or threads run out: no exception leaves them, and what was refused has
// changed nothing, so that the same call succeeds when there is enough again.
//
//   shortage_test fake|iwarp [GTEST_OPTION ...]

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <utility>

#include "tests/conformance/misuse/functions.h"
#include "tests/conformance/misuse/shortage.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {
namespace {

using ndkpi::World;

void EachFunctionWithAStatusHasARow(World&) {
  std::multiset<std::string> rows, listed;
  for (const auto some : {BrokerRows(), DataRows()}) {
    for (const Row& row : some) rows.insert(row.function);
  }
  for (const Function& function : kFunctions) {
    if (function.has_status) listed.insert(function.name);
  }
  EXPECT_EQ(rows, listed);
}

// Opening a session needs a thread, descriptors and memory.
void EachShortageIsOne(World& w) {
  for (const Kind& kind : kKinds) {
    Play play(kind.what);
    ASSERT_STREQ(BrokerRows().front().function, "Session.Open");
    BrokerRows().front().run(w, play);
    EXPECT_GT(play.refusals(), 0) << kind.name;
  }
}

class ShortageTest : public testing::Test {
 public:
  ShortageTest(const ndkpi::Surroundings& surroundings, std::function<void(World&)> run)
      : surroundings_(surroundings), run_(std::move(run)) {}

  void TestBody() override {
    static const ndkpi::Case kAny = {.name = "Shortage"};
    World world(surroundings_, kAny);
    world.Establish();
    if (!HasFailure()) run_(world);
  }

 private:
  const ndkpi::Surroundings& surroundings_;
  const std::function<void(World&)> run_;
};

void PlayRow(World& w, const Row& row, Short what) {
  // Made now, while there is enough.
  w.a().side();
  w.b().side();
  Play play(what);
  row.run(w, play);
  EXPECT_EQ(play.plays(), 1);
  std::cout << row.function << ": refused " << play.refusals() << " times" << std::endl;
}

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: shortage_test ADAPTER\n");
    return 64;
  }
  static const ndkpi::Surroundings kSurroundings = ndkpi::Prepare(argv[1]);
  const auto add = [](const char* suite, const std::string& name, const std::function<void(World&)>& run) {
    testing::RegisterTest(suite, (name + "/" + kSurroundings.adapter).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [run]() -> testing::Test* { return new ShortageTest(kSurroundings, run); });
  };
  for (const auto rows : {BrokerRows(), DataRows()}) {
    for (const Row& row : rows) {
      for (const Kind& kind : kKinds) {
        if (kind.what == Short::kDescriptors && row.hands_over) continue;
        add(kind.name, row.function, [&row, &kind](World& w) { PlayRow(w, row, kind.what); });
      }
    }
  }
  add("Shortages", "HaveARowForEachFunction", EachFunctionWithAStatusHasARow);
  add("Shortages", "AreShortages", EachShortageIsOne);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::misuse

int main(int argc, char** argv) { return rdmabroker::misuse::Run(argc, argv); }
