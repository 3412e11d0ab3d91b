// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/handshake_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace rdmabroker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SessionId kOne(1), kTwo(2), kThree(3);
const SocketAddress kListener = {{.bytes = {192, 0, 2, 1}}, 4420};
const SocketAddress kOtherListener = {{.bytes = {192, 0, 2, 1}}, 4421};

// Four at a time, so two of a session.
class HandshakeTurnsTest : public ::testing::Test {
 protected:
  void Wait(uint64_t connection, SessionId session, const SocketAddress& listener = kListener) {
    turns_.Wait(ConnectionId(connection), session, listener, [this, connection] { begun_.push_back(connection); });
  }
  void End(uint64_t connection) {
    if (turns_.End(ConnectionId(connection))) turns_.BeginNext();
  }
  // Those that have begun since the last time.
  std::vector<uint64_t> Begun() { return std::exchange(begun_, {}); }

  HandshakeTurns turns_{4};
  std::vector<uint64_t> begun_;
};

TEST_F(HandshakeTurnsTest, AFewBeginAtOnce) {
  Wait(1, kOne);
  Wait(2, kTwo);
  Wait(3, kOne);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3));
}

TEST_F(HandshakeTurnsTest, NoMoreAreUnderWayTowardsAListenerThanMayBe) {
  for (const uint64_t connection : {1, 2, 3, 4, 5, 6}) Wait(connection, SessionId(connection));
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3, 4));
  End(3);
  EXPECT_THAT(Begun(), ElementsAre(5));
  End(1);
  End(2);
  EXPECT_THAT(Begun(), ElementsAre(6));
}

TEST_F(HandshakeTurnsTest, NoneBeginsOnceTheyAreHeld) {
  for (const uint64_t connection : {1, 2, 3}) Wait(connection, kOne);
  EXPECT_THAT(Begun(), ElementsAre(1, 2));
  turns_.Hold();
  End(1);
  End(3);
  Wait(4, kTwo);
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(HandshakeTurnsTest, ListenersAreApart) {
  for (const uint64_t connection : {1, 2, 3, 4, 5}) Wait(connection, SessionId(connection));
  Wait(6, kOne, kOtherListener);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3, 4, 6));
  End(6);
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(HandshakeTurnsTest, OneSessionsManyDoNotKeepAnothersOneWaiting) {
  for (uint64_t connection = 1; connection <= 1000; ++connection) Wait(connection, kOne);
  EXPECT_THAT(Begun(), ElementsAre(1, 2));
  Wait(1001, kTwo);
  EXPECT_THAT(Begun(), ElementsAre(1001));
}

TEST_F(HandshakeTurnsTest, SessionsTakeTurns) {
  for (uint64_t connection = 1; connection <= 10; ++connection) Wait(connection, kOne);
  for (uint64_t connection = 11; connection <= 20; ++connection) Wait(connection, kTwo);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 11, 12));
  Wait(21, kThree);
  Wait(22, kThree);
  Wait(23, kThree);
  std::vector<uint64_t> order;
  for (const uint64_t ending : {1, 11, 2, 12, 3, 13}) {
    End(ending);
    for (const uint64_t begun : Begun()) order.push_back(begun);
  }
  EXPECT_THAT(order, ElementsAre(3, 13, 21, 4, 14, 22));
}

TEST_F(HandshakeTurnsTest, ASessionsOwnBeginInTheirOrder) {
  for (const uint64_t connection : {5, 3, 9, 1}) Wait(connection, kOne);
  EXPECT_THAT(Begun(), ElementsAre(5, 3));
  End(3);
  End(5);
  EXPECT_THAT(Begun(), ElementsAre(9, 1));
}

TEST_F(HandshakeTurnsTest, WhatIsEndedWhileItWaitsNeverBegins) {
  for (const uint64_t connection : {1, 2, 3, 4}) Wait(connection, kOne);
  End(3);
  End(1);
  End(2);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 4));
}

TEST_F(HandshakeTurnsTest, AnEndCountsOnce) {
  for (const uint64_t connection : {1, 2, 3, 4, 5, 6}) Wait(connection, kOne);
  End(1);
  End(1);
  End(77);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3));
}

TEST_F(HandshakeTurnsTest, OneMayWaitAgainAndIsLastOfItsSessionThen) {
  for (const uint64_t connection : {1, 2, 3}) Wait(connection, kOne);
  End(1);
  Wait(1, kOne);
  End(2);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3, 1));
}

TEST_F(HandshakeTurnsTest, AnEndSaysWhetherOthersMayBeginWhoDoSoNotBefore) {
  for (const uint64_t connection : {1, 2}) Wait(connection, kOne);
  for (const uint64_t connection : {3, 4, 5}) Wait(connection, kTwo);
  Wait(6, kOne);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(turns_.End(ConnectionId(77)));
  EXPECT_FALSE(turns_.End(ConnectionId(5))) << "it has only waited";
  EXPECT_TRUE(turns_.End(ConnectionId(1)));
  EXPECT_THAT(Begun(), IsEmpty());
  turns_.BeginNext();
  EXPECT_THAT(Begun(), ElementsAre(6));
  EXPECT_FALSE(turns_.End(ConnectionId(2))) << "none waits";
  turns_.BeginNext();
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(HandshakeTurnsTest, AnEndSaysThatNoneMayBeginOnceTheyAreHeld) {
  for (const uint64_t connection : {1, 2, 3}) Wait(connection, kOne);
  turns_.Hold();
  EXPECT_FALSE(turns_.End(ConnectionId(1)));
}

// As where nothing leads to the host.
TEST_F(HandshakeTurnsTest, ManyThatEndAsTheyBeginDoNotNest) {
  int depth = 0, deepest = 0, begun = 0;
  for (const uint64_t connection : {1, 2}) Wait(connection, kOne);
  for (uint64_t connection = 3; connection < 1003; ++connection) {
    turns_.Wait(ConnectionId(connection), kOne, kListener, [&, connection] {
      deepest = std::max(deepest, ++depth);
      ++begun;
      End(connection);
      --depth;
    });
  }
  End(1);
  EXPECT_EQ(begun, 1000);
  EXPECT_EQ(deepest, 1);
}

}  // namespace
}  // namespace rdmabroker
