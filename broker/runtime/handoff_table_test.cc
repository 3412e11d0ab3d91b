// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/handoff_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "broker/runtime/randomness.h"

namespace rdmabroker {
namespace {

class HandoffTableTest : public testing::Test {
 protected:
  // Offers one end of a stream; the other end tells whether the table has closed its own.
  HandoffSecret Offer(ConnectionId connection) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_.Reset(ends[1]);
    Handoff handoff;
    handoff.socket = UniqueFd(ends[0]);
    handoff.state = "state";
    handoff.on_taken = [this] { Tell("taken"); };
    handoff.on_lost = [this] { Tell("lost"); };
    return table_.Offer(connection, std::move(handoff));
  }

  bool IsClosed() const {
    char byte = 0;
    return ::recv(peer_.get(), &byte, 1, 0) == 0;
  }
  void Tell(const std::string& what) { told_.push_back(what + (IsClosed() ? ", closed" : ", open")); }

  HandoffTable table_;
  UniqueFd peer_;
  std::vector<std::string> told_;
};

TEST_F(HandoffTableTest, FindsWhatIsOfferedUnderItsSecret) {
  const HandoffSecret secret = Offer(ConnectionId(3));
  Handoff* handoff = table_.Find(ConnectionId(3));
  ASSERT_NE(handoff, nullptr);
  EXPECT_EQ(handoff->secret, secret);
  EXPECT_EQ(handoff->state, "state");
  EXPECT_FALSE(handoff->sent);
  EXPECT_FALSE(IsClosed());
  EXPECT_EQ(table_.Find(ConnectionId(4)), nullptr);
}

TEST_F(HandoffTableTest, OffersAgainUnderTheSameSecret) {
  Handoff handoff;
  handoff.secret = RandomSecret();
  const HandoffSecret secret = handoff.secret;
  table_.OfferAgain(ConnectionId(3), std::move(handoff));
  ASSERT_NE(table_.Find(ConnectionId(3)), nullptr);
  EXPECT_EQ(table_.Find(ConnectionId(3))->secret, secret);
}

TEST_F(HandoffTableTest, ClosesItsCopyBeforeItTellsWhatBecameOfIt) {
  Offer(ConnectionId(3));
  table_.Settle(ConnectionId(3), true);
  EXPECT_EQ(told_, std::vector<std::string>{"taken, closed"});
  Offer(ConnectionId(4));
  table_.Settle(ConnectionId(4), false);
  EXPECT_EQ(told_, (std::vector<std::string>{"taken, closed", "lost, closed"}));
  EXPECT_EQ(table_.Find(ConnectionId(3)), nullptr);
  table_.Settle(ConnectionId(3), true);
  EXPECT_EQ(told_.size(), 2u);
}

TEST_F(HandoffTableTest, WithdrawalClosesAndTellsNobody) {
  Offer(ConnectionId(3));
  table_.Withdraw(ConnectionId(3));
  EXPECT_TRUE(IsClosed());
  EXPECT_TRUE(told_.empty());
  table_.Withdraw(ConnectionId(3));
}

TEST_F(HandoffTableTest, MayBeUsedAgainFromWhatItTells) {
  Handoff handoff;
  handoff.on_taken = [this] { table_.Offer(ConnectionId(3), Handoff()); };
  table_.Offer(ConnectionId(3), std::move(handoff));
  table_.Settle(ConnectionId(3), true);
  EXPECT_NE(table_.Find(ConnectionId(3)), nullptr);
}

TEST(Randomness, SecretsDiffer) {
  std::set<std::array<uint8_t, 16>> secrets;
  for (int i = 0; i < 1000; ++i) secrets.insert(RandomSecret());
  EXPECT_EQ(secrets.size(), 1000u);
}

}  // namespace
}  // namespace rdmabroker
