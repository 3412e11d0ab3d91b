// SPDX-License-Identifier: Apache-2.0

// Random sequences of calls, valid and invalid ones, on one adapter.
//
//   misuse_test fake|iwarp|rxe|siw [GTEST_OPTION ...]
//
// The environment says how many:
//   RDMA_BROKER_BLOCKS   how many blocks of 1000 seeds
//   RDMA_BROKER_SEEDS    how many of each, if not all of them, or
//   RDMA_BROKER_SEED     this seed alone, with all of its calls
//
// A seed gives the same calls by the main thread; which of them other threads overtake differs from run to run.
//
// Misuse is what a program can do wrongly with objects that it still owns. These are errors of the program's instead,
// which the headers exclude, and which are not tried:
//   - a data object used or closed after its Close, unless the program has a reference of its own; an adapter's data
//     side, which its client::Adapter closes, or its session (data_object.h, adapter.h)
//   - a reference given back that was not taken
//   - a region's memory unmapped, or inline data that is not there (memory.h, operation.h)
//   - posts to one queue from several threads at once (queue_pair.h, shared_receive_queue.h)
//   - a callback that waits for another, or that waits at all on a data adapter's own thread (session.h,
//     completion_queue.h), by other means than the functions of blocking.h, which refuse there
//   - a Session destroyed while another thread uses it

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/conformance/misuse/sequence.h"

namespace rdmabroker::misuse {
namespace {

constexpr uint64_t kBlock = 1000;
// So many that every function is called and accepted in them.
constexpr uint64_t kEnough = 500;
constexpr double kLeastAccepted = 0.3;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool IsAlone() { return std::getenv("RDMA_BROKER_SEED") != nullptr; }

class MisuseTest : public testing::Test {
 public:
  MisuseTest(const ndkpi::Surroundings& surroundings, uint64_t block) : surroundings_(surroundings), block_(block) {}

  void TestBody() override {
    const uint64_t first = IsAlone() ? FromEnvironment("RDMA_BROKER_SEED", 1) : block_ * kBlock + 1;
    const uint64_t seeds = IsAlone() ? 1 : FromEnvironment("RDMA_BROKER_SEEDS", kBlock);
    Programs programs(surroundings_);
    Tally tally;
    for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
      // Whatever ends this process, the last line tells by which seed.
      std::cerr << "seed " << seed << std::endl;
      const std::vector<std::string> problems = programs.Run(seed, tally);
      if (IsAlone()) std::cout << absl::StrJoin(programs.log(), "\n") << "\n";
      if (problems.empty()) continue;
      ADD_FAILURE() << "seed " << seed << " on " << surroundings_.adapter << ":\n"
                    << absl::StrJoin(problems, "\n") << "\nafter\n"
                    << absl::StrJoin(programs.log(), "\n") << "\nto reproduce: RDMA_BROKER_SEED=" << seed
                    << " tests/run //tests/conformance/misuse:misuse_" << surroundings_.adapter << "_test";
    }
    EXPECT_EQ(programs.End(), 0) << "the broker does not end in order";
    std::cout << "covered: seeds " << first << " to " << first + seeds - 1 << " on " << surroundings_.adapter << ": "
              << absl::StrFormat("%.1f %% accepted: ", 100 * tally.AcceptedShare()) << tally.ToString() << "\n";
    if (seeds < kEnough) return;
    EXPECT_GE(tally.AcceptedShare(), kLeastAccepted);
    for (const std::string& missing : tally.Missing(surroundings_.adapter)) ADD_FAILURE() << missing;
  }

 private:
  const ndkpi::Surroundings& surroundings_;
  const uint64_t block_;
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: misuse_test ADAPTER\n");
    return 64;
  }
  const ndkpi::Surroundings surroundings = ndkpi::Prepare(argv[1]);
  const uint64_t blocks = IsAlone() ? 1 : FromEnvironment("RDMA_BROKER_BLOCKS", 1);
  for (uint64_t block = 0; block < blocks; ++block) {
    testing::RegisterTest("Misuse",
                          ("NeverCrashesNorBlocks/" + surroundings.adapter + "/" + std::to_string(block)).c_str(),
                          nullptr, nullptr, __FILE__, __LINE__,
                          [&surroundings, block]() -> testing::Test* { return new MisuseTest(surroundings, block); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::misuse

int main(int argc, char** argv) { return rdmabroker::misuse::Run(argc, argv); }
