// SPDX-License-Identifier: Apache-2.0

#include "broker/control/user_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Lt;
using testing::Not;

class UserTurnsTest : public testing::Test {
 protected:
  using Line = std::shared_ptr<UserTurns::Line>;

  // Adds pieces of work, each of which is written down and costs `requests`.
  void Add(const Line& line, const std::string& name, int64_t requests, int pieces = 1) {
    for (int i = 0; i < pieces; ++i) {
      turns_.Add(line, [this, line = line.get(), name, requests] {
        turns_.Charge(*line, requests);
        ran_.push_back(name);
      });
    }
  }
  // What runs in the next turn of the loop.
  std::vector<std::string> NextTurn() {
    ran_.clear();
    waited_.clear();
    loop_.RunTurn(Loop::Now());
    return ran_;
  }
  static size_t Count(const std::vector<std::string>& ran, const std::string& name) {
    return static_cast<size_t>(std::count(ran.begin(), ran.end(), name));
  }

  Loop loop_;
  std::vector<uint64_t> waited_;
  UserTurns turns_{loop_, [this](uint64_t others) { waited_.push_back(others); }};
  const Line a_ = std::make_shared<UserTurns::Line>();
  const Line b_ = std::make_shared<UserTurns::Line>();
  std::vector<std::string> ran_;
};

TEST_F(UserTurnsTest, WorkOfALineRunsInItsOrder) {
  for (const char* const name : {"first", "second", "third"}) Add(a_, name, 1);
  EXPECT_THAT(NextTurn(), ElementsAre("first", "second", "third"));
  EXPECT_THAT(NextTurn(), IsEmpty());
}

TEST_F(UserTurnsTest, AUserHasItsShareOfATurn) {
  Add(a_, "a", 1, 3 * UserTurns::kShare);
  Add(b_, "b", 1);
  const std::vector<std::string> ran = NextTurn();
  EXPECT_EQ(Count(ran, "a"), UserTurns::kShare);
  EXPECT_EQ(Count(ran, "b"), 1u);
  EXPECT_EQ(Count(NextTurn(), "a"), UserTurns::kShare);
  EXPECT_EQ(Count(NextTurn(), "a"), UserTurns::kShare);
}

TEST_F(UserTurnsTest, WhatExceedsTheShareIsPaidForInTheNextTurn) {
  Add(a_, "a", UserTurns::kShare - 1);
  Add(a_, "a", UserTurns::kShare);
  Add(a_, "a", 1, 3);
  EXPECT_EQ(Count(NextTurn(), "a"), 2u);
  // It owes all but one request of its share.
  EXPECT_EQ(Count(NextTurn(), "a"), 1u);
  EXPECT_EQ(Count(NextTurn(), "a"), 2u);
}

TEST_F(UserTurnsTest, WhatAUserOwesTakesOfItsShare) {
  UserTurns::Owe(*a_, 2 * UserTurns::kShare);
  EXPECT_FALSE(a_->MayGoOn());
  Add(a_, "a", 1);
  EXPECT_THAT(NextTurn(), IsEmpty());
  EXPECT_THAT(NextTurn(), ElementsAre("a"));
}

TEST_F(UserTurnsTest, AShareThatIsNotUsedIsNotSaved) {
  for (int i = 0; i < 10; ++i) {
    Add(a_, "a", 1);
    NextTurn();
  }
  Add(a_, "a", 1, 3 * UserTurns::kShare);
  EXPECT_EQ(Count(NextTurn(), "a"), UserTurns::kShare);
}

TEST_F(UserTurnsTest, WorkThatWorkAddsWaitsForTheNextTurn) {
  turns_.Add(a_, [this] {
    ran_.push_back("first");
    Add(a_, "second", 1);
  });
  EXPECT_THAT(NextTurn(), ElementsAre("first"));
  EXPECT_THAT(NextTurn(), ElementsAre("second"));
}

TEST_F(UserTurnsTest, WorkThatIsAddedAfterTheLinesWereServedDoesNotLengthenTheTurn) {
  turns_.Add(a_, [this] { loop_.AtTurnEnd(Loop::Stage::kWrite, [this] { Add(b_, "b", 1); }); });
  EXPECT_THAT(NextTurn(), IsEmpty());
  EXPECT_THAT(NextTurn(), ElementsAre("b"));
}

TEST_F(UserTurnsTest, AUserWaitsForLessThanTwoSharesOfEachOtherUser) {
  constexpr int kBusy = 5;
  std::vector<Line> busy;
  for (int i = 0; i < kBusy; ++i) busy.push_back(std::make_shared<UserTurns::Line>());
  for (int turn = 0; turn < 100; ++turn) {
    for (const Line& line : busy) Add(line, "busy", 1 + turn % UserTurns::kShare, UserTurns::kShare);
    Add(a_, "a", 1);
    for (int turns = 1; Count(NextTurn(), "a") == 0; ++turns) ASSERT_LT(turns, kBusy) << turn;
    EXPECT_THAT(waited_, AllOf(Not(IsEmpty()), Each(Lt(kBusy * 2 * UserTurns::kShare)))) << turn;
  }
}

TEST_F(UserTurnsTest, ATurnOfManyUsersEndsAndTheNextGoesOnWithTheOthers) {
  constexpr size_t kUsers = 2 * UserTurns::kInATurn / UserTurns::kShare;
  std::vector<Line> users;
  for (size_t i = 0; i < kUsers; ++i) Add(users.emplace_back(std::make_shared<UserTurns::Line>()), absl::StrCat(i), 64);
  std::vector<std::string> ran = NextTurn();
  EXPECT_EQ(ran.size(), kUsers / 2);
  EXPECT_EQ(ran.front(), "0");
  ran = NextTurn();
  EXPECT_EQ(ran.size(), kUsers / 2);
  EXPECT_EQ(ran.front(), absl::StrCat(kUsers / 2));
}

TEST_F(UserTurnsTest, TellsHowManyRequestsOfOthersWereServedBefore) {
  Add(a_, "a", 5);
  Add(b_, "b", 3);
  Add(b_, "b", 1);
  NextTurn();
  // The second one of b waits for the first.
  EXPECT_THAT(waited_, ElementsAre(0, 5));
}

TEST_F(UserTurnsTest, TellsNothingOfWorkThatItsOwnUserDelays) {
  UserTurns::Owe(*a_, 2 * UserTurns::kShare);
  Add(a_, "a", 1);
  NextTurn();
  NextTurn();
  EXPECT_THAT(waited_, IsEmpty());
}

}  // namespace
}  // namespace rdmabroker
