// SPDX-License-Identifier: Apache-2.0

#include "broker/control/user_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/control/stopped_clock.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UserCostsTest : public testing::Test {
 protected:
  // A connection of that name, which ends when it is told to.
  UserCosts::Entry& Connect(const std::string& name, const Payer& payer) {
    auto& entry = connections_[name];
    entry = costs_.Enter(payer, [this, name] {
      ended_.push_back(name);
      connections_.erase(name);
    });
    return *entry;
  }
  std::vector<std::string> EndedInTheNextTurn() {
    ended_.clear();
    loop_.RunTurn(Loop::Now());
    return ended_;
  }
  bool MaySend(rpc::FrameBudget& frames) {
    const rpc::FrameHeader ping{.length = 8, .type = 6};
    return frames.Spend(ping, Loop::Now()) == rpc::FrameBudget::Excess::kNone;
  }

  Loop loop_;
  UserCosts costs_{loop_, {.of_payer = 100, .in_all = 250, .kept = absl::ZeroDuration()}, nullptr};
  std::map<std::string, std::unique_ptr<UserCosts::Entry>> connections_;
  std::vector<std::string> ended_;
};

TEST_F(UserCostsTest, TheConnectionThatHoldsMostEndsWhenItsUserExceedsTheBound) {
  Connect("small", uid_t{1}).Hold(30);
  Connect("large", uid_t{1}).Hold(70);
  Connect("another's", uid_t{2}).Hold(90);
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
  connections_.at("small")->Hold(31);
  EXPECT_THAT(EndedInTheNextTurn(), ElementsAre("large"));
  EXPECT_EQ(costs_.held(), 121u);
}

TEST_F(UserCostsTest, ConnectionsEndUntilTheBoundHolds) {
  for (const char* const name : {"a", "b", "c"}) Connect(name, uid_t{1}).Hold(90);
  EXPECT_EQ(EndedInTheNextTurn().size(), 2u);
  EXPECT_EQ(costs_.held(), 90u);
}

TEST_F(UserCostsTest, TheUserThatHoldsMostLosesAConnectionWhenAllTogetherExceedTheBound) {
  Connect("1", uid_t{1}).Hold(80);
  Connect("2", uid_t{2}).Hold(50);
  Connect("2 again", uid_t{2}).Hold(45);
  Connect("3", uid_t{3}).Hold(76);
  EXPECT_THAT(EndedInTheNextTurn(), ElementsAre("2"));
}

TEST_F(UserCostsTest, WhatIsGivenBackDoesNotCount) {
  UserCosts::Entry& one = Connect("one", uid_t{1});
  for (int i = 0; i < 10; ++i) {
    one.Hold(100);
    one.Hold(0);
  }
  Connect("gone", uid_t{1}).Hold(100);
  connections_.erase("gone");
  one.Hold(100);
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
  EXPECT_EQ(costs_.held(), 100u);
}

TEST_F(UserCostsTest, ConnectionsOfAUserShareItsFrames) {
  rpc::FrameBudget& frames = Connect("one", uid_t{1}).frames();
  while (MaySend(frames)) {
  }
  EXPECT_EQ(&Connect("two", uid_t{1}).frames(), &frames);
  EXPECT_TRUE(MaySend(Connect("another's", uid_t{2}).frames()));
}

TEST_F(UserCostsTest, WhoConnectsAgainInTimeHasTheSameAccount) {
  // The budget of frames grows with time.
  const StoppedClock clock;
  rpc::FrameBudget& frames = Connect("one", uid_t{1}).frames();
  while (MaySend(frames)) {
  }
  connections_.clear();
  EXPECT_EQ(&Connect("again", uid_t{1}).frames(), &frames);
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
  EXPECT_FALSE(MaySend(connections_.at("again")->frames())) << "the account is there after its time";
  connections_.clear();
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
  EXPECT_TRUE(MaySend(Connect("later", uid_t{1}).frames())) << "it was kept for its time only";
}

TEST_F(UserCostsTest, ConnectionsOfAUserShareItsTurns) {
  const UserCosts::Entry& one = Connect("one", uid_t{1});
  const UserCosts::Entry& two = Connect("two", uid_t{1});
  const UserCosts::Entry& another = Connect("another's", uid_t{2});
  std::vector<std::string> ran;
  one.InTurn([&] {
    one.Charge(UserTurns::kShare);
    ran.emplace_back("one");
  });
  two.InTurn([&] { ran.emplace_back("two"); });
  another.InTurn([&] { ran.emplace_back("another's"); });
  loop_.RunTurn(Loop::Now());
  EXPECT_THAT(ran, ElementsAre("one", "another's"));
  EXPECT_FALSE(two.MayGoOn());
  EXPECT_TRUE(another.MayGoOn());
  loop_.RunTurn(Loop::Now());
  EXPECT_THAT(ran, ElementsAre("one", "another's", "two"));
}

TEST_F(UserCostsTest, AConnectionThatDoesNotEndAtOnceIsToldOnce) {
  const auto slow = costs_.Enter(uid_t{1}, [this] { ended_.emplace_back("slow"); });
  slow->Hold(101);
  EXPECT_THAT(EndedInTheNextTurn(), ElementsAre("slow"));
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
}

TEST_F(UserCostsTest, AConnectionThatIsNamedIsOnTheAccountOfItsName) {
  const IpAddress host;
  UserCosts::Entry& named = Connect("named", host);
  Connect("unnamed", host).Hold(60);
  named.Hold(60);
  for (int i = 0; i < 2; ++i) named.MoveTo("spiffe://example.org/admin");
  EXPECT_EQ(costs_.held(), 120u);
  EXPECT_THAT(EndedInTheNextTurn(), IsEmpty());
  EXPECT_NE(&named.frames(), &connections_.at("unnamed")->frames());
  named.Hold(101);
  EXPECT_THAT(EndedInTheNextTurn(), ElementsAre("named"));
}

}  // namespace
}  // namespace rdmabroker
