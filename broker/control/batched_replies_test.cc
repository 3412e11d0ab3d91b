// SPDX-License-Identifier: Apache-2.0

#include "broker/control/batched_replies.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BatchedRepliesTest : public testing::Test {
 protected:
  BatchedRepliesTest() { session_.id = SessionId(7); }

  // Events 1 to `last`, of which those up to `acknowledged` have been forgotten.
  void HaveEvents(uint64_t last, uint64_t acknowledged = 0) {
    session_.last_event = EventNumber(last);
    session_.acknowledged = session_.dropped = EventNumber(acknowledged);
    session_.events.assign(last - acknowledged, OutcomeEvent{RequestId(1), Outcome{}});
  }
  bool Fill() {
    reply_.Clear();
    return replies_.Fill(has_ended_ ? nullptr : &session_, &sent_, &reply_);
  }
  std::vector<uint64_t> Answers() const {
    std::vector<uint64_t> ids;
    for (const auto& answer : reply_.batch().answers()) ids.push_back(answer.request_id());
    return ids;
  }
  std::vector<uint64_t> Events() const {
    std::vector<uint64_t> numbers;
    for (const auto& event : reply_.batch().events()) numbers.push_back(event.number());
    return numbers;
  }
  // An answer of at least so many bytes, up to a hint's limit.
  static Outcome Long(size_t bytes) {
    return {.status = NdkStatus::kInvalidParameter, .hint = std::string(bytes, 'x')};
  }

  SessionRecord session_;
  bool has_ended_ = false;
  EventNumber sent_;
  BatchedReplies replies_;
  v1::SessionReply reply_;
};

TEST_F(BatchedRepliesTest, WhatWaitsGoesTogetherAndOnce) {
  HaveEvents(2);
  replies_.Answer(1, {});
  replies_.Answer(2, {.status = NdkStatus::kPending});
  replies_.Took(2);
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Answers(), ElementsAre(1));
  EXPECT_THAT(Events(), ElementsAre(1, 2));
  EXPECT_EQ(reply_.batch().requests_taken(), 2u);
  EXPECT_EQ(sent_, EventNumber(2));
  EXPECT_FALSE(Fill());
}

TEST_F(BatchedRepliesTest, APendingRequestAloneIsToldToBeTaken) {
  replies_.Answer(1, {.status = NdkStatus::kPending});
  replies_.Took(1);
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(reply_.batch().requests_taken(), 1u);
  EXPECT_FALSE(Fill());
}

TEST_F(BatchedRepliesTest, EventsThatWereAcknowledgedAreNotCountedIn) {
  HaveEvents(5, 3);
  sent_ = EventNumber(4);
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Events(), ElementsAre(5));
}

TEST_F(BatchedRepliesTest, WhatDoesNotFitIntoAMessageComesWithTheNextAndNothingIsTakenBeforeItsAnswer) {
  HaveEvents(3000);
  constexpr uint64_t kAnswers = 200;
  for (uint64_t id = 1; id <= kAnswers; ++id) replies_.Answer(id, Long(1000));
  replies_.Took(kAnswers);
  std::set<uint64_t> answered;
  uint64_t events = 0;
  int messages = 0;
  while (Fill()) {
    ASSERT_LT(++messages, 50);
    EXPECT_LE(reply_.ByteSizeLong(), 65536u);
    for (const uint64_t id : Answers()) answered.insert(id);
    for (const uint64_t number : Events()) EXPECT_EQ(number, ++events);
    EXPECT_EQ(reply_.batch().requests_taken(), answered.size() == kAnswers ? kAnswers : 0);
    EXPECT_TRUE(Events().empty() || answered.size() == kAnswers) << "no event overtakes an answer";
  }
  EXPECT_EQ(answered.size(), kAnswers);
  EXPECT_EQ(events, 3000u);
  EXPECT_LE(messages, 10);
}

TEST_F(BatchedRepliesTest, OfASessionThatHasEndedOnlyAnswersAreTold) {
  HaveEvents(2);
  has_ended_ = true;
  EXPECT_FALSE(Fill());
  replies_.Answer(1, {});
  replies_.Took(1);
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Answers(), ElementsAre(1));
  EXPECT_THAT(Events(), ElementsAre());
}

TEST_F(BatchedRepliesTest, OneThatFitsIntoNoMessageGoesAlone) {
  HaveEvents(1);
  replies_.Answer(1, {.payload = ConnectionData{.private_data = Bytes(70'000)}});
  replies_.Answer(2, {});
  replies_.Took(2);
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Answers(), ElementsAre(1));
  ASSERT_TRUE(Fill());
  EXPECT_THAT(Answers(), ElementsAre(2));
  EXPECT_THAT(Events(), ElementsAre(1));
}

}  // namespace
}  // namespace rdmabroker
