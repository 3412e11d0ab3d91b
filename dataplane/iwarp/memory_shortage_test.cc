// SPDX-License-Identifier: Apache-2.0

// Memory runs out while a poll carries out what the peer asks for, which no status can say: the connection ends, with
// the cause, and nothing of the consumer's memory stays in use.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/provider_error.h"
#include "dataplane/testing/side.h"
#include "tests/memory_shortage.h"

namespace rdmabroker::iwarp {
namespace {

// A peer that wants markers reads: of all that peers ask for, the answer alone is made in memory that is not there
// before. How b's connection ended, if it did, where b's polls get so many allocations.
std::optional<ConnectionEnd> AnswerWithMarkers(int64_t allocations) {
  constexpr size_t kLength = 64 * 1024;
  Side a, b;
  Buffer of_a(a.domain, kLength, kAllAccess), of_b(b.domain, kLength, kAllAccess);
  States states = StatesFor();
  states.passive.markers_to_peer = true;
  Connect(a, b, states);
  // The progress thread leaves the socket to those who poll.
  ResultEx result;
  b.cq->GetResultsEx({&result, 1});
  const Sge into = of_a.sge();
  EXPECT_EQ(a.qp->Read(nullptr, {&into, 1}, of_b.remote(), 0), NdkStatus::kSuccess);
  bool refused = false;
  EXPECT_TRUE(Eventually([&] {
    {
      const auto shortage = MemoryShortage::HereAfter(allocations);
      b.cq->GetResultsEx({&result, 1});
      refused = shortage.refused();
    }
    // Here a's data path takes no markers, so that the answer ends its connection.
    return refused || a.cq->GetResultsEx({&result, 1}) > 0;
  }));
  // The regions' closes wait for whoever uses them.
  of_b.Close();
  of_a.Close();
  return refused ? std::optional(b.End()) : std::nullopt;
}

TEST(MemoryShortage, InAPollEndsTheConnectionWithItsCause) {
  // The progress thread, which has memory, may be at it before b polls: so each is tried often.
  constexpr int kTries = 80;
  constexpr int kMostAllocations = 8;  // More than any of these polls makes.
  int ends = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto end = AnswerWithMarkers(i % kMostAllocations);
    if (!end.has_value()) continue;
    ++ends;
    EXPECT_FALSE(end->graceful);
    EXPECT_EQ(end->provider_error, kSocketError | ENOMEM);
  }
  EXPECT_GT(ends, 0);
}

}  // namespace
}  // namespace rdmabroker::iwarp
