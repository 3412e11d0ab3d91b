// SPDX-License-Identifier: Apache-2.0

// How many connections the TCP port takes, and how long it keeps them.

#include "broker/control/tcp_port.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/health_service.h"
#include "broker/control/server_certificates.h"
#include "broker/control/services.h"
#include "broker/control/user_turns.h"
#include "broker/fabric/iwarp/testing/raw_peer.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/loop_for_test.h"
#include "broker/runtime/tcp_listener.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/rpc/testing/frames.h"
#include "tests/control/connections.h"
#include "tests/control/raw_client.h"
#include "tests/control/stopped_clock.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/control/test_client.h"
#include "tests/control/tls_client.h"

namespace rdmabroker {
namespace {

// Nothing that is to happen after it happens in a test.
constexpr absl::Duration kNever = absl::Hours(24);

class TcpPortTest : public testing::Test {
 protected:
  TcpPortTest() : pair_(authority_.Sign({.addresses = {"127.0.0.1"}})) {
    const CertificateFiles files = {folder_.path() + "/cert.pem", folder_.path() + "/key.pem",
                                    folder_.path() + "/ca.pem"};
    std::ofstream(files.certificate) << pair_.certificate;
    std::ofstream(files.private_key) << pair_.private_key;
    std::ofstream(files.client_authorities) << authority_.certificate();
    certificates_ = *ReadServerCertificates(files, absl::Now());
  }

  void Start(const TcpBounds& bounds, const char* address = "127.0.0.1:0") {
    auto listener = ListenOnTcp("address", address, SOMAXCONN);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const auto admit = [this](const PresentedChain&, const IpAddress&, absl::string_view,
                              std::shared_ptr<const Caller>* caller) {
      *caller = std::make_shared<Caller>();
      ++asked_;
      return admitted_ ? rpc::Status() : rpc::Status{.code = absl::StatusCode::kPermissionDenied};
    };
    port_ =
        std::make_unique<TcpPort>(*std::move(listener), services_, accepting_, costs_, loop_, metrics_, bounds, admit);
    port_->Use(certificates_.tls);
    port_->StartAccepting();
  }

  UniqueFd ConnectFrom(const char* host) const { return rdmabroker::ConnectFrom(host, port_->address()); }
  // Whether the port has room for the connection, which has just been made.
  bool IsTaken(const UniqueFd& client) {
    const size_t before = port_->connections();
    // Each turn waits for a while, as the accepting thread may not have come so far.
    const auto is_decided = [&] { return port_->connections() > before || IsOver(client); };
    const absl::Time end = Loop::Now() + absl::Seconds(30);
    while (!is_decided() && Loop::Now() < end) loop_.RunTurn(Loop::Now() + absl::Milliseconds(1));
    return port_->connections() > before;
  }
  bool Becomes(const std::function<bool()>& condition) {
    const absl::Time end = Loop::Now() + absl::Seconds(30);
    while (!condition()) {
      if (Loop::Now() >= end) return false;
      loop_.RunTurn(Loop::Now() + absl::Milliseconds(1));
    }
    return true;
  }

  // A client that connects from 127.0.0.1 and makes one call.
  std::shared_ptr<grpc::Channel> Call(bool is_admitted) {
    auto channel = TlsChannel(port_->address(), authority_.certificate(), pair_.certificate, pair_.private_key);
    admitted_ = is_admitted;
    std::atomic<bool> done = false;
    std::thread caller([&] {
      grpc::ClientContext context;
      Limit(context);
      grpc::health::v1::HealthCheckResponse reply;
      const grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &reply);
      EXPECT_EQ(status.ok(), is_admitted) << status.error_message();
      done = true;
      loop_.Post([] {});
    });
    EXPECT_TRUE(RunUntil(loop_, [&] { return done.load(); }));
    caller.join();
    return channel;
  }

  const TestAuthority authority_{"authority"};
  const TestPair pair_;
  const TemporaryFolder folder_;
  ServerCertificates certificates_;
  bool admitted_ = false;
  int asked_ = 0;  // How often the port has asked whether to admit a call.
  const absl::Duration patience_ = kNever;
  Loop loop_;
  Services services_;
  HealthService health_{services_, loop_, patience_};
  UserCosts costs_{loop_, UserCosts::Bounds(), nullptr};
  Metrics metrics_;
  AcceptingThread accepting_{loop_};
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

TEST_F(TcpPortTest, AMachineThatHasGoneIsNoticedAfterNinetySeconds) {
  constexpr int kSeconds = 90;
  Start({.patience = kNever});
  const UniqueFd client = ConnectFrom("127.0.0.2");
  ASSERT_TRUE(IsTaken(client));
  const int socket = SocketBetween(*SocketAddress::Parse(port_->address()), AddressOf(client));
  ASSERT_NE(socket, -1);
  EXPECT_EQ(OptionOf(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  const auto of_tcp = [socket](int option) { return OptionOf(socket, IPPROTO_TCP, option); };
  EXPECT_EQ(of_tcp(TCP_KEEPIDLE) + of_tcp(TCP_KEEPINTVL) * of_tcp(TCP_KEEPCNT), kSeconds) << "where nothing is sent";
  EXPECT_EQ(of_tcp(TCP_USER_TIMEOUT), kSeconds * 1000) << "where what was sent is not acknowledged";
}

TEST_F(TcpPortTest, ConnectionsAreBoundedInAll) {
  Start({.connections = 2, .of_host = 2, .patience = kNever});
  const UniqueFd first = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(IsTaken(first));
  const UniqueFd second = ConnectFrom("127.0.0.3");
  EXPECT_TRUE(IsTaken(second));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.4")));
}

TEST_F(TcpPortTest, AHandshakeThatIsNotDoneInTimeIsLetGoOf) {
  Start({.of_host = 1, .patience = absl::Milliseconds(1)});
  const UniqueFd silent = ConnectFrom("127.0.0.2");
  EXPECT_TRUE(Becomes([&] { return IsOver(silent); }));
  EXPECT_TRUE(Becomes([&] { return port_->connections() == 0; })) << "and leaves his place";
}

TEST_F(TcpPortTest, WhoIsNotAdmittedInTimeIsLetGoOf) {
  Start({.of_host = 1, .patience = absl::Seconds(2)});
  const auto channel = Call(false);
  EXPECT_TRUE(port_->HasConnections());
  EXPECT_TRUE(Becomes([&] { return port_->connections() == 0; }));
}

// Else there would be no bound to handshakes.
TEST_F(TcpPortTest, WhoHasComeAndGoneCounts) {
  Start({.of_host = 2, .patience = kNever});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(IsTaken(ConnectFrom("127.0.0.2")));
  EXPECT_TRUE(IsTaken(ConnectFrom("127.0.0.3")));
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.2")));
}

TEST_F(TcpPortTest, WhoIsAdmittedStaysAndLeavesHisPlaceAtOnce) {
  Start({.of_host = 1, .patience = kNever});
  auto channel = Call(true);
  EXPECT_FALSE(IsTaken(ConnectFrom("127.0.0.1"))) << "it is there";
  channel.reset();
  EXPECT_TRUE(Becomes([&] { return port_->connections() == 0; }));
}

TEST_F(TcpPortTest, AnAdmittedOneEndsWhenItHasLastedLongEnough) {
  Start({.patience = kNever, .longest = absl::Milliseconds(1)});
  const auto channel = Call(true);
  EXPECT_TRUE(Becomes([&] { return !port_->HasConnections(); }));
}

// The call would keep the connection for as long as it may last.
TEST_F(TcpPortTest, OneThatIsToEndEndsSoonThoughItsFirstCallComesAfterThat) {
  Start({.patience = kNever, .longest = kNever});
  admitted_ = true;
  RawClient client(ConnectFrom("127.0.0.1"), std::make_unique<TlsClient>(&pair_));
  EXPECT_TRUE(Becomes([&] {
    client.Receive();
    return port_->HasConnections();
  }));
  const rpc::CallId watch = client.Begin("/grpc.health.v1.Health/Watch");
  client.Send(watch, grpc::health::v1::HealthCheckRequest());
  client.HalfClose(watch);
  client.Flush();
  EXPECT_EQ(asked_, 0);
  port_->EndConnections();
  EXPECT_TRUE(Becomes([&] { return asked_ == 1; }));
  StoppedClock().Move(TcpPort::kLastWords);
  loop_.RunTurn(Loop::Now());
  EXPECT_FALSE(port_->HasConnections());
}

TEST(HostOf, IsANetworkOf64BitsForIpv6) {
  const struct {
    const char* one;
    const char* other;
    bool is_same;
  } rows[] = {
      {"2001:db8:0:1::1", "2001:db8:0:1::2", true},
      {"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true},
      {"2001:db8:0:1::1", "2001:db8::1", false},
      {"2001:db8:0:1::1", "3001:db8:0:1::1", false},
      {"192.0.2.1", "192.0.2.1", true},
      {"192.0.2.1", "192.0.2.2", false},
      {"0.0.0.0", "::", false},
  };
  for (const auto& row : rows) {
    const IpAddress one = HostOf(*IpAddress::Parse(row.one));
    const IpAddress other = HostOf(*IpAddress::Parse(row.other));
    EXPECT_EQ(one == other, row.is_same) << row.one << " and " << row.other;
  }
}

class ChangedKeysTest : public TcpPortTest {
 protected:
  void SetUp() override {
    Start({.patience = kNever, .longest = kNever});
    socket_ = ConnectFrom("127.0.0.1");
    ASSERT_TRUE(Exchange([&] { return client_.is_open(); }));
    client_.Send(rpc::Preface() + rpc::SettingsAck());
    ASSERT_TRUE(Exchange([&] { return Received(rpc::SettingsAck()) == 1; }));
  }

  // Runs turns, and carries octets, until it is so.
  bool Exchange(const std::function<bool()>& condition) {
    return Becomes([&] {
      const std::string output = client_.TakeOutput();
      EXPECT_EQ(::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL), static_cast<ssize_t>(output.size()));
      std::string octets(65536, '\0');
      const ssize_t size = ::recv(socket_.get(), octets.data(), octets.size(), MSG_DONTWAIT);
      if (size > 0) client_.Receive(octets.substr(0, static_cast<size_t>(size)));
      return condition();
    });
  }
  void ChangeKeys() { client_.ChangeKeys(SSL_KEY_UPDATE_NOT_REQUESTED); }
  // How often the client has received the octets.
  int Received(const std::string& octets) const {
    int times = 0;
    for (size_t at = 0; (at = client_.received.find(octets, at)) != std::string::npos; at += octets.size()) ++times;
    return times;
  }

  UniqueFd socket_;
  TlsClient client_{&pair_};
};

TEST_F(ChangedKeysTest, ManyOfThemBesideDataTakeManyTurns) {
  constexpr int kPings = 20;
  const std::string ping = rpc::Frame(NGHTTP2_PING, 0, 0, "whatever");
  for (int i = 0; i < kPings; ++i) {
    for (const char octet : ping) {
      ChangeKeys();
      client_.Send({&octet, 1});
    }
  }
  const uint64_t before = loop_.turn();
  const std::string pong = rpc::Frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "whatever");
  EXPECT_TRUE(Exchange([&] { return Received(pong) == kPings; }));
  // Each counts as four requests.
  EXPECT_GE(loop_.turn() - before, kPings * ping.size() * 4 / UserTurns::kShare);
}

TEST_F(ChangedKeysTest, ManyOfThemWithoutDataEndTheConnectionAsOtherFloodsDo) {
  for (int i = 0; i < 500; ++i) ChangeKeys();
  EXPECT_TRUE(Exchange([&] { return Received("too many messages of TLS") == 1; })) << "it is told why";
  EXPECT_TRUE(Becomes([&] { return !port_->HasConnections(); }));
}

TEST_F(TcpPortTest, ThoseOfWhichItIsTrueEndAndOthersStay) {
  Start({.patience = kNever});
  const auto channel = Call(true);
  port_->EndConnections([](const PresentedChain&) { return false; });
  EXPECT_TRUE(port_->HasConnections());
  port_->EndConnections([](const PresentedChain& chain) { return chain.certificate() != nullptr; });
  EXPECT_TRUE(Becomes([&] { return !port_->HasConnections(); }));
}

}  // namespace
}  // namespace rdmabroker
