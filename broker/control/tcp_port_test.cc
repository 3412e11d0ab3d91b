// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tcp_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/runtime/queue_executor_for_test.h"
#include "broker/runtime/tcp_listener.h"
#include "broker/runtime/watcher.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

// Nothing that is to happen after it happens in a test.
constexpr absl::Duration kNever = absl::Hours(24);

// Stands in for gRPC.
class Given final : public grpc::experimental::ExternalConnectionAcceptor {
 public:
  explicit Given(std::vector<UniqueFd>& connections) : connections_(connections) {}
  void HandleNewConnection(NewConnectionParameters* parameters) override { connections_.emplace_back(parameters->fd); }

 private:
  std::vector<UniqueFd>& connections_;
};

class TcpPortTest : public testing::Test {
 protected:
  void Start(const TcpBounds& bounds, const char* address = "127.0.0.1:0") {
    auto listener = ListenOnTcp("address", address, SOMAXCONN);
    ASSERT_TRUE(listener.ok()) << listener.status();
    port_ = std::make_unique<TcpPort>(*std::move(listener), std::make_unique<Given>(given_), watcher_, bounds);
    port_->StartAccepting();
  }

  // A client's end; 127.0.0.1 and its neighbours are as many hosts.
  UniqueFd ConnectFrom(const char* host) const {
    const auto port = SocketAddress::Parse(port_->address())->port;
    sockaddr_in from = {.sin_family = AF_INET};
    sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ::inet_pton(AF_INET, host, &from.sin_addr);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static bool IsOver(const UniqueFd& client) {
    char byte = 0;
    return ::recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  bool IsTaken(const UniqueFd& client) {
    const size_t before = given_.size();
    return executor_.RunUntil([&] { return given_.size() > before || IsOver(client); }) && !IsOver(client);
  }

  QueueExecutor executor_;
  Watcher watcher_{executor_};
  std::vector<UniqueFd> given_;
  std::unique_ptr<TcpPort> port_;
};

TEST_F(TcpPortTest, OneHostTakesNoOthersConnections) {
  Start({.connections = 4, .of_host = 2, .patience = kNever});
  const UniqueFd first = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(IsTaken(first));
  const UniqueFd second = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(IsTaken(second));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.2")));
  const UniqueFd another = ConnectFrom("127.0.0.3");
  EXPECT_TRUE(IsTaken(another));
}

TEST_F(TcpPortTest, AtEveryAddressAHostOfIpv4IsOneOfMany) {
  Start({.of_host = 1, .patience = kNever}, "[::]:0");
  const UniqueFd first = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(IsTaken(first));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.2")));
  EXPECT_TRUE(IsTaken(ConnectFrom("127.0.0.3")));
}

TEST_F(TcpPortTest, ConnectionsAreBoundedInAll) {
  Start({.connections = 2, .of_host = 2, .patience = kNever});
  const UniqueFd first = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(IsTaken(first));
  const UniqueFd second = ConnectFrom("127.0.0.3");
  EXPECT_TRUE(IsTaken(second));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.4")));
}

TEST_F(TcpPortTest, WhoIsNotAdmittedInTimeIsLetGoOf) {
  Start({.of_host = 1, .patience = absl::Milliseconds(1)});
  const UniqueFd silent = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(executor_.RunUntil([&] { return given_.size() == 1 && IsOver(silent); }));
  EXPECT_TRUE(executor_.RunUntil([&] { return IsTaken(ConnectFrom("127.0.0.2")); })) << "and leaves his place";
}

// Else there would be no bound to handshakes.
TEST_F(TcpPortTest, WhoHasComeAndGoneCounts) {
  Start({.of_host = 2, .patience = kNever});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(IsTaken(ConnectFrom("127.0.0.2")));
  // Their ends are seen before what comes from now on is taken.
  EXPECT_TRUE(IsTaken(ConnectFrom("127.0.0.3")));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.2")));
}

TEST_F(TcpPortTest, WhoIsAdmittedStaysAndLeavesHisPlaceAtOnce) {
  Start({.of_host = 1, .patience = kNever});
  UniqueFd client = ConnectFrom("127.0.0.2");
  ASSERT_TRUE(IsTaken(client));
  port_->Keep(AddressOf(client), kNever, nullptr);
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.2"))) << "it is there";
  client.Reset();
  EXPECT_TRUE(executor_.RunUntil([&] { return IsTaken(ConnectFrom("127.0.0.2")); }));
}

TEST_F(TcpPortTest, AnAdmittedOneEndsInItsTime) {
  Start({.patience = kNever});
  const UniqueFd client = ConnectFrom("127.0.0.2");
  ASSERT_TRUE(IsTaken(client));
  port_->Keep(AddressOf(client), absl::Milliseconds(1), nullptr);
  EXPECT_TRUE(executor_.RunUntil([&] { return IsOver(client); }));
}

TEST_F(TcpPortTest, AnAdmittedOneEndsWhenItHasLastedLongEnough) {
  Start({.patience = kNever, .longest = absl::Milliseconds(1)});
  const UniqueFd client = ConnectFrom("127.0.0.2");
  ASSERT_TRUE(IsTaken(client));
  port_->Keep(AddressOf(client), kNever, nullptr);
  EXPECT_TRUE(executor_.RunUntil([&] { return IsOver(client); }));
}

TEST(TcpPeerOf, ReadsWhatGrpcSaysOfAPeer) {
  const std::pair<const char*, const char*> rows[] = {
      {"ipv4:192.0.2.1:4711", "192.0.2.1:4711"},
      {"ipv6:%5B2001:db8::1%5D:4711", "[2001:db8::1]:4711"},
      {"ipv6:%5Bfe80::1%253%5D:4711", "[fe80::1%3]:4711"},
      {"ipv6:[::1]:4711", "[::1]:4711"},
  };
  for (const auto& [peer, address] : rows) EXPECT_EQ(TcpPeerOf(peer), SocketAddress::Parse(address)) << peer;
  for (const char* peer : {"", "fd:7", "unix:/run/a", "ipv4:", "192.0.2.1"}) EXPECT_EQ(TcpPeerOf(peer), std::nullopt);
}

}  // namespace
}  // namespace rdmabroker
