// SPDX-License-Identifier: Apache-2.0

// Memory runs out while user-space iWARP goes on with what it has taken, which no status can say: the connection ends,
// with the cause, and nothing of the consumer's memory stays in use.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/provider_error.h"
#include "dataplane/testing/side.h"
#include "tests/memory_shortage.h"

namespace rdmabroker::iwarp {
namespace {

constexpr uint32_t kNoMemory = kSocketError | ENOMEM;

States WithMarkersToB() {
  States states = StatesFor();
  states.passive.markers_to_peer = true;
  return states;
}

// A peer that wants markers reads: of all that peers ask for, the answer alone is made in memory that is not there
// before. How b's connection ended, if it did, where b's polls get so many allocations.
std::optional<ConnectionEnd> AnswerWithMarkers(int64_t allocations) {
  constexpr size_t kLength = 64 * 1024;
  Side a, b;
  Buffer of_a(a.domain, kLength, kAllAccess), of_b(b.domain, kLength, kAllAccess);
  Connect(a, b, WithMarkersToB());
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
    EXPECT_EQ(end->provider_error, kNoMemory);
  }
  EXPECT_GT(ends, 0);
}

// Of the two requests that a post broke at.
void ExpectEndOfBoth(Side& side) {
  EXPECT_EQ(side.End().provider_error, kNoMemory);
  const std::vector<ResultEx> results = side.Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kInsufficientResources);
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
}

TEST(MemoryShortage, InASendWithMarkersEndsTheConnectionWithItsCause) {
  constexpr size_t kLength = 40'000;
  int ends = 0;
  for (int64_t allocations = 0; allocations < 16; ++allocations) {
    SCOPED_TRACE(allocations);
    Side a, b;
    Buffer of_b(b.domain, kLength, kAllAccess);
    Connect(a, b, WithMarkersToB());
    const Sge sge = of_b.sge(), small = of_b.sge(0, 10);
    ASSERT_EQ(b.qp->Send(nullptr, {&small, 1}, kOpDefer), NdkStatus::kSuccess);
    NdkStatus status = NdkStatus::kSuccess;
    bool refused = false;
    {
      const auto shortage = MemoryShortage::HereAfter(allocations);
      status = b.qp->Send(nullptr, {&sge, 1}, 0);
      refused = shortage.refused();
    }
    if (status != NdkStatus::kSuccess || !refused) continue;
    ++ends;
    ExpectEndOfBoth(b);
  }
  EXPECT_GT(ends, 0);
}

TEST(MemoryShortage, InInitializeFastRegisterLeavesTheRegionUninitialised) {
  Side a, b;
  Connect(a, b);
  MemoryRegion* const region = a.domain->CreateMemoryRegion(true).object;
  {
    const auto shortage = MemoryShortage::HereAfter(0);
    EXPECT_EQ(region->InitializeFastRegister(1, true), NdkStatus::kNoMemory);
  }
  void* const page = &a;
  EXPECT_EQ(a.qp->FastRegister(nullptr, region, {&page, 1}, 0, 1, 0, kOpAllowRemoteRead),
            NdkStatus::kInvalidDeviceRequest);
  CloseAndWait(region);
}

}  // namespace
}  // namespace rdmabroker::iwarp
