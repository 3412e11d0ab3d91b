// SPDX-License-Identifier: Apache-2.0

#include "client/protocol/request_queue.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "client/protocol/batched_request.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class RequestQueueTest : public testing::Test {
 protected:
  // The request names a connector of its own, by which it is known.
  static v1::BatchedRequest Request(uint64_t connector, size_t private_data = 0) {
    v1::RejectRequest reject;
    reject.set_connector_id(connector);
    reject.set_private_data(std::string(private_data, 'x'));
    return InBatch(std::move(reject));
  }
  void Add(uint64_t connector, size_t private_data = 0) {
    queue_.Add(Request(connector, private_data), [this, connector](const Outcome& outcome, const v1::Outcome&) {
      ended_.push_back(connector);
      outcomes_.push_back(outcome);
    });
  }
  void AddMany(uint64_t first, uint64_t last) {
    for (uint64_t connector = first; connector <= last; ++connector) Add(connector);
  }
  // What may be sent now.
  std::vector<uint64_t> Fill() {
    batch_.Clear();
    const bool some = queue_.Fill(&batch_);
    EXPECT_EQ(some, batch_.requests_size() != 0);
    std::vector<uint64_t> connectors;
    for (const auto& request : batch_.requests()) connectors.push_back(request.reject().connector_id());
    return connectors;
  }
  std::vector<uint64_t> Numbers() const {
    std::vector<uint64_t> numbers;
    for (const auto& request : batch_.requests()) numbers.push_back(request.request_id());
    return numbers;
  }
  static v1::Outcome Failed(v1::NdkStatus status) {
    v1::Outcome outcome;
    outcome.set_status(status);
    return outcome;
  }

  RequestQueue queue_;
  v1::RequestBatch batch_;
  std::vector<uint64_t> ended_;
  std::vector<Outcome> outcomes_;
};

TEST_F(RequestQueueTest, RequestsAreNumberedFromOneInTheOrderInWhichTheyAreMade) {
  queue_.SetWindow(64);
  AddMany(11, 13);
  EXPECT_THAT(Fill(), ElementsAre(11, 12, 13));
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Fill(), IsEmpty());
  Add(14);
  EXPECT_THAT(Fill(), ElementsAre(14));
  EXPECT_THAT(Numbers(), ElementsAre(4));
}

TEST_F(RequestQueueTest, NoMoreAreSentAndNotTakenThanTheBrokerKeepsAnswersFor) {
  queue_.SetWindow(3);
  AddMany(1, 7);
  EXPECT_THAT(Fill(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Fill(), IsEmpty());
  queue_.Finish(2, {});
  EXPECT_THAT(Fill(), IsEmpty()) << "the oldest holds the window, whatever becomes of the others";
  queue_.Took(2);
  EXPECT_THAT(Fill(), ElementsAre(4, 5));
  queue_.Took(5);
  EXPECT_THAT(Fill(), ElementsAre(6, 7));
  EXPECT_TRUE(queue_.unanswered());
  queue_.Took(7);
  EXPECT_FALSE(queue_.unanswered());
}

TEST_F(RequestQueueTest, ABatchIsNoLongerThanAMessageMayBe) {
  constexpr size_t kLong = 9000;
  queue_.SetWindow(1000);
  for (uint64_t connector = 1; connector <= 20; ++connector) Add(connector, kLong);
  size_t sent = 0;
  for (;;) {
    const size_t some = Fill().size();
    if (some == 0) break;
    v1::SessionRequest message;
    *message.mutable_requests() = batch_;
    message.mutable_requests()->set_acknowledged_event(UINT64_MAX);
    EXPECT_LE(message.ByteSizeLong(), 65536u);
    EXPECT_GE(some, 6u) << "most of a message is used";
    sent += some;
    if (sent == 20) break;
  }
  EXPECT_EQ(sent, 20u);
}

TEST_F(RequestQueueTest, OneThatNoMessageCanCarryIsRefusedAndHoldsNothingUp) {
  queue_.SetWindow(8);
  Add(1, 70'000);
  Add(2);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_EQ(outcomes_[0].status, NdkStatus::kInvalidParameter);
  EXPECT_THAT(outcomes_[0].hint, HasSubstr("larger"));
  EXPECT_THAT(Fill(), ElementsAre(2));
}

TEST_F(RequestQueueTest, ABatchHasNoMoreRequestsThanTheBrokerHandlesInOneGo) {
  queue_.SetWindow(1000);
  AddMany(1, 150);
  EXPECT_THAT(Fill(), SizeIs(64));
  EXPECT_THAT(Fill(), SizeIs(64));
  EXPECT_THAT(Fill(), SizeIs(22));
}

TEST_F(RequestQueueTest, OnAnotherStreamWhatIsNotKnownToBeTakenIsSentAgainUnderItsNumber) {
  queue_.SetWindow(64);
  AddMany(1, 5);
  Fill();
  queue_.Took(2);  // Of which the second is pending.
  queue_.Finish(1, {});
  queue_.Finish(4, {});  // By an event that came before the stream was lost.
  Add(6);
  queue_.SendAgain();
  EXPECT_THAT(Fill(), ElementsAre(3, 5, 6));
  EXPECT_THAT(Numbers(), ElementsAre(3, 5, 6));
  queue_.Finish(2, {});
  EXPECT_THAT(ended_, ElementsAre(1, 4, 2));
}

TEST_F(RequestQueueTest, WhatHasEndedHoldsTheWindowNoLongerThoughItIsNotKnownToBeTaken) {
  queue_.SetWindow(3);
  AddMany(1, 3);
  Fill();
  // The broker dies, and its successor tells the outcomes before it gets the requests again, and dies.
  queue_.SendAgain();
  for (uint64_t id = 1; id <= 3; ++id) queue_.Finish(id, {});
  EXPECT_FALSE(queue_.unanswered());
  queue_.SendAgain();
  AddMany(4, 7);
  EXPECT_THAT(Fill(), ElementsAre(4, 5, 6));
  queue_.SendAgain();
  EXPECT_THAT(Fill(), ElementsAre(4, 5, 6));
  queue_.Took(6);
  EXPECT_THAT(Fill(), ElementsAre(7));
}

TEST_F(RequestQueueTest, EachEndsOnceWithItsOwnOutcomeInWhateverOrder) {
  queue_.SetWindow(64);
  AddMany(1, 3);
  Fill();
  queue_.Finish(3, Failed(v1::STATUS_CONNECTION_REFUSED));
  queue_.Finish(1, {});
  queue_.Finish(3, {});
  queue_.Finish(99, {});
  EXPECT_THAT(ended_, ElementsAre(3, 1));
  EXPECT_EQ(outcomes_[0].status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(outcomes_[1].status, NdkStatus::kSuccess);
}

TEST_F(RequestQueueTest, OneThatWasNotSentHasNoOutcome) {
  queue_.SetWindow(1);
  AddMany(1, 2);
  Fill();
  queue_.Finish(2, {});
  queue_.Took(2);
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_THAT(Fill(), IsEmpty()) << "nor is it taken";
}

TEST_F(RequestQueueTest, AnOutcomeThatIsNotFinalIsTheBrokersFault) {
  queue_.SetWindow(64);
  AddMany(1, 2);
  Fill();
  queue_.Finish(1, Failed(v1::STATUS_PENDING));
  queue_.Finish(2, Failed(v1::STATUS_TIMEOUT));
  ASSERT_THAT(outcomes_, SizeIs(2));
  for (const Outcome& outcome : outcomes_) EXPECT_EQ(outcome.status, NdkStatus::kInternalError);
}

TEST_F(RequestQueueTest, AtTheEndTheSentOnesSayThatTheirDeedIsUnknownAndTheOthersDoNot) {
  queue_.SetWindow(2);
  AddMany(1, 3);
  Fill();
  queue_.Took(1);  // Pending.
  queue_.SendAgain();
  queue_.End({.status = NdkStatus::kConnectionDisconnected, .hint = "over"});
  EXPECT_THAT(ended_, ElementsAre(1, 2, 3));
  EXPECT_THAT(outcomes_[0].hint, HasSubstr("not known"));
  EXPECT_THAT(outcomes_[1].hint, HasSubstr("not known"));
  EXPECT_EQ(outcomes_[2].hint, "over");
  Add(4);
  EXPECT_THAT(ended_, SizeIs(4));
  EXPECT_EQ(outcomes_[3].hint, "over");
  EXPECT_THAT(Fill(), IsEmpty());
}

TEST_F(RequestQueueTest, WhatIsMadeByTheEndOfAnotherEndsLikewise) {
  queue_.Add(Request(1), [this](const Outcome&, const v1::Outcome&) { Add(2); });
  queue_.End({.status = NdkStatus::kCancelled, .hint = "closed"});
  EXPECT_THAT(ended_, ElementsAre(2));
  EXPECT_EQ(outcomes_[0].status, NdkStatus::kCancelled);
  EXPECT_THAT(outcomes_[0].hint, Not(HasSubstr("not known")));
}

TEST_F(RequestQueueTest, MoreThanMayWaitAreRefused) {
  queue_.SetWindow(1);
  AddMany(1, RequestQueue::kMostWaiting);
  EXPECT_THAT(ended_, IsEmpty());
  Add(0);
  EXPECT_THAT(ended_, ElementsAre(0));
  EXPECT_EQ(outcomes_[0].status, NdkStatus::kInsufficientResources);
  Fill();
  Add(RequestQueue::kMostWaiting + 1);
  EXPECT_THAT(ended_, SizeIs(1)) << "the first has been sent";
}

}  // namespace
}  // namespace rdmabroker::client
