// SPDX-License-Identifier: Apache-2.0

#include "broker/control/acceptor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/control/listening_socket.h"
#include "tests/control/connections.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

constexpr size_t kMost = Acceptor::kAcceptsAtATime;

class AcceptorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = ListenOnUnixSocket({.path = path_, .type = SOCK_STREAM, .mode = 0600, .group = {}});
    ASSERT_TRUE(listener.ok()) << listener.status();
    acceptor_.emplace(*std::move(listener), "test", loop_, [this](UniqueFd socket) {
      taken_.push_back(std::move(socket));
      if (taken_.size() == room_) acceptor_->Pause();
    });
    for (size_t i = 0; i < 2 * kMost + 1; ++i) {
      clients_.push_back(ConnectAs(::getuid(), ::getgid(), path_, SOCK_STREAM));
      ASSERT_TRUE(clients_.back());
    }
  }
  // The number of connections that were taken by the end of the next turn; nothing if that had nothing to do.
  std::optional<size_t> TakenByNextTurn() {
    return loop_.RunTurn(Loop::Now()) ? std::optional(taken_.size()) : std::nullopt;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
  Loop loop_;
  size_t room_ = 4 * kMost;
  std::vector<UniqueFd> taken_;
  std::vector<UniqueFd> clients_;
  std::optional<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, TakesSomeInEachTurn) {
  EXPECT_EQ(TakenByNextTurn(), std::nullopt) << "it has not started";
  acceptor_->Start();
  EXPECT_EQ(TakenByNextTurn(), kMost);
  EXPECT_EQ(TakenByNextTurn(), 2 * kMost);
  EXPECT_EQ(TakenByNextTurn(), 2 * kMost + 1);
}

TEST_F(AcceptorTest, TakesNoMoreThanItsOwnerHasRoomFor) {
  room_ = kMost / 2;
  acceptor_->Start();
  EXPECT_EQ(TakenByNextTurn(), room_);
  EXPECT_EQ(TakenByNextTurn(), std::nullopt);
  acceptor_->Resume();
  EXPECT_EQ(TakenByNextTurn(), room_ + kMost);
}

}  // namespace
}  // namespace rdmabroker
