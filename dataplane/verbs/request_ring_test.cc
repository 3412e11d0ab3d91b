// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/request_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

namespace rdmabroker::verbs {
namespace {

PostedRequest Request(uintptr_t context, Signal signal = Signal::kReported) {
  return {.context = reinterpret_cast<void*>(context), .type = OperationType::kSend, .signal = signal};
}

class RequestRings : public testing::Test {
 protected:
  // Contexts and statuses of what the consumer is told.
  using Results = std::vector<std::pair<uintptr_t, NdkStatus>>;

  static std::vector<FinishedRequest> TakeAll(RequestRing& of) {
    std::vector<FinishedRequest> finished;
    while (const auto one = of.TakeEnded()) finished.push_back(*one);
    return finished;
  }
  static Results Told(const std::vector<FinishedRequest>& finished) {
    Results results;
    for (const FinishedRequest& one : finished) {
      if (one.reported()) results.emplace_back(reinterpret_cast<uintptr_t>(one.request.context), one.status);
    }
    return results;
  }
  Results Told() { return Told(TakeAll(ring)); }

  RequestRing ring{4};
};

TEST_F(RequestRings, ACompletionFreesThePlacesOfTheSilentOnesBefore) {
  for (uintptr_t i = 0; i < 3; ++i) ring.Push(Request(i, Signal::kNone));
  const uint64_t last = ring.Push(Request(3));
  EXPECT_EQ(ring.room(), 0u);
  EXPECT_TRUE(ring.Complete(last, NdkStatus::kSuccess, 0));
  const std::vector<FinishedRequest> finished = TakeAll(ring);
  EXPECT_EQ(finished.size(), 4u);
  EXPECT_EQ(Told(finished), (Results{{3, NdkStatus::kSuccess}}));
  EXPECT_EQ(ring.room(), 4u);
}

TEST_F(RequestRings, ARequestIsCompletedAloneWhereNoOtherIsDoneWithIt) {
  const uint64_t silent = ring.Push(Request(0, Signal::kNone));
  EXPECT_FALSE(ring.CompleteAlone(silent + 1).has_value()) << "nothing is there";
  const uint64_t second = ring.Push(Request(1));
  const uint64_t third = ring.Push(Request(2));
  EXPECT_FALSE(ring.CompleteAlone(second).has_value()) << "it takes the silent one with it";
  EXPECT_EQ(ring.room(), 1u);
  ring.Complete(second, NdkStatus::kSuccess, 0);
  EXPECT_EQ(Told(), (Results{{1, NdkStatus::kSuccess}}));
  EXPECT_FALSE(ring.CompleteAlone(second).has_value()) << "it is done";
  ring.EndFrom(ring.Push(Request(3)), NdkStatus::kCancelled);
  EXPECT_FALSE(ring.CompleteAlone(third).has_value()) << "what ended after it goes with it";
  ring.Complete(third, NdkStatus::kSuccess, 0);
  EXPECT_EQ(Told(), (Results{{2, NdkStatus::kSuccess}, {3, NdkStatus::kCancelled}}));
  const auto alone = ring.CompleteAlone(ring.Push(Request(4)));
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->context, Request(4).context);
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.CompleteAlone(ring.tail()).has_value()) << "nobody posted it";
}

TEST_F(RequestRings, TheFailureOfASilentRequestIsReportedAndSoAreThoseAfterIt) {
  ring.Push(Request(0, Signal::kNone));
  const uint64_t failed = ring.Push(Request(1, Signal::kNone));
  const uint64_t flushed = ring.Push(Request(2, Signal::kHidden));
  ring.Complete(failed, NdkStatus::kIoTimeout, 7);
  const std::vector<FinishedRequest> finished = TakeAll(ring);
  EXPECT_EQ(Told(finished), (Results{{1, NdkStatus::kIoTimeout}}));
  EXPECT_EQ(finished.back().provider_error, 7u);
  ring.Complete(flushed, NdkStatus::kCancelled, 0);
  EXPECT_EQ(Told(), (Results{{2, NdkStatus::kCancelled}}));
}

TEST_F(RequestRings, InternalRequestsHaveNoResult) {
  PostedRequest internal = Request(0, Signal::kNone);
  internal.internal = true;
  ring.Complete(ring.Push(internal), NdkStatus::kInternalError, 0);
  EXPECT_EQ(Told(), Results());
}

TEST_F(RequestRings, StaleNumbersAreIgnored) {
  const uint64_t first = ring.Push(Request(0));
  ring.Complete(first, NdkStatus::kSuccess, 0);
  TakeAll(ring);
  ring.Push(Request(1));
  EXPECT_FALSE(ring.Complete(first, NdkStatus::kCancelled, 0));
  EXPECT_FALSE(ring.Complete(first + 2, NdkStatus::kCancelled, 0));
  EXPECT_FALSE(ring.TakeEnded().has_value());
}

TEST_F(RequestRings, WhatEndedBySoftwareWaitsForWhatTheHardwareHas) {
  const uint64_t first = ring.Push(Request(0));
  const uint64_t second = ring.Push(Request(1));
  ring.Push(Request(2));
  ring.EndFrom(second, NdkStatus::kInternalError);
  EXPECT_FALSE(ring.TakeEnded().has_value());
  ring.Complete(first, NdkStatus::kSuccess, 0);
  EXPECT_EQ(Told(),
            (Results{{0, NdkStatus::kSuccess}, {1, NdkStatus::kInternalError}, {2, NdkStatus::kInternalError}}));
}

TEST_F(RequestRings, WhatTheHardwareHasForgottenIsCancelledUpToABoundary) {
  ring.Push(Request(0));
  ring.Push(Request(1, Signal::kHidden));
  const uint64_t boundary = ring.tail();
  ring.Push(Request(2));
  ring.CancelBefore(boundary);
  EXPECT_EQ(Told(), (Results{{0, NdkStatus::kCancelled}, {1, NdkStatus::kCancelled}}));
  EXPECT_EQ(ring.room(), 3u);
}

TEST_F(RequestRings, SilentRequestsThatTheHardwareHasForgottenSayNothingUnlessTheyWereNeverPosted) {
  ring.Push(Request(0, Signal::kNone));
  ring.Push(Request(1));
  const uint64_t unposted = ring.Push(Request(2, Signal::kNone));
  ring.EndFrom(unposted, NdkStatus::kCancelled);
  ring.CancelBefore(ring.tail());
  EXPECT_EQ(Told(), (Results{{1, NdkStatus::kCancelled}, {2, NdkStatus::kCancelled}}));
}

TEST_F(RequestRings, ARequestThatIsTakenBackLeavesTheCountOfSilentOnesAsItWas) {
  ring.Push(Request(0, Signal::kNone));
  ring.Push(Request(1, Signal::kNone));
  ring.Push(Request(2, Signal::kNone));
  ASSERT_TRUE(ring.needs_signal());
  ring.Push(Request(3));
  EXPECT_FALSE(ring.wants_signal());
  ring.PopLast();
  EXPECT_TRUE(ring.needs_signal());
}

TEST_F(RequestRings, ARequestBeyondTheCapacityTakesNoPlaceAndIsToldToNobody) {
  RequestRing with_one(2, 1);
  const PostedRequest beyond = {.signal = Signal::kHidden, .internal = true, .beyond = true};
  with_one.Push(beyond);
  with_one.PopLast();
  EXPECT_EQ(with_one.beyond(), 0u);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = with_one.Push(Request(1, Signal::kNone));
    const uint64_t own = with_one.Push(beyond);
    EXPECT_EQ(with_one.room(), 1u);
    const uint64_t second = with_one.Push(Request(2));
    EXPECT_EQ(with_one.room(), 0u);
    EXPECT_EQ(with_one.beyond(), 1u);
    with_one.Complete(own, NdkStatus::kSuccess, 0);
    const std::vector<FinishedRequest> finished = TakeAll(with_one);
    EXPECT_EQ(finished.front().sequence, first);
    EXPECT_EQ(Told(finished), Results()) << "that it is done is nobody's business";
    EXPECT_EQ(with_one.beyond(), 0u);
    EXPECT_EQ(with_one.room(), 1u);
    with_one.Complete(second, NdkStatus::kSuccess, 0);
    EXPECT_EQ(Told(TakeAll(with_one)), (Results{{2, NdkStatus::kSuccess}}));
    EXPECT_TRUE(with_one.CompleteAlone(with_one.Push(beyond)).has_value());
    EXPECT_EQ(with_one.beyond(), 0u);
    with_one.Complete(with_one.Push(beyond), NdkStatus::kIoTimeout, 1);
    EXPECT_EQ(Told(TakeAll(with_one)), Results()) << "not even that it fails";
    EXPECT_EQ(with_one.room(), 2u);
  }
}

// However deep the queue is and however late the hardware reports, silent requests alone can go on for ever, as long as
// the one that needs a signal gets it.
TEST(RequestRing, SilentRequestsAloneNeverLeaveTheQueueFull) {
  for (size_t capacity = 1; capacity <= 9; ++capacity) {
    for (const bool when_wanted : {true, false}) {
      RequestRing ring(capacity);
      std::deque<uint64_t> signalled;
      for (int i = 0; i < 100; ++i) {
        if (ring.room() == 0) {
          ASSERT_FALSE(signalled.empty()) << "full of requests that nothing reports, " << capacity;
          ring.Complete(signalled.front(), NdkStatus::kSuccess, 0);
          while (const auto finished = ring.TakeEnded()) EXPECT_FALSE(finished->reported());
          signalled.pop_front();
        }
        const bool signal = when_wanted ? ring.wants_signal() : ring.needs_signal();
        const uint64_t sequence = ring.Push(Request(0, signal ? Signal::kHidden : Signal::kNone));
        if (signal) signalled.push_back(sequence);
        EXPECT_LE(signalled.size(), 3u) << "more hidden completions than are of use";
      }
    }
  }
}

}  // namespace
}  // namespace rdmabroker::verbs
