// SPDX-License-Identifier: Apache-2.0

// The hand-off socket: who gets the transport of a connection, who does not, and what becomes of it.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/runtime/descriptor_message.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "proto/rdmabroker/v1/handoff.pb.h"
#include "tests/control/connections.h"
#include "tests/control/handoff_fetcher.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

class HandoffTest : public testing::Test {
 protected:
  void Start(const Configuration& configuration = TestConfiguration()) {
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestHandoffDevice(1)}, configuration);
    Connect(NewChannel(daemon_->target()));
  }

  // Two clients of the daemon, connected; the active one comes over `channel`.
  void Connect(const std::shared_ptr<grpc::Channel>& channel) {
    server_ = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    client_ = std::make_unique<TestClient>(channel);
    ASSERT_EQ(server_->Open(), NdkStatus::kSuccess);
    ASSERT_EQ(client_->Open(), NdkStatus::kSuccess);
    const auto [listener, address] = server_->Listen(server_->OpenAdapter("fake1"), TestAddress(1));
    connection_ = ConnectClients(*server_, address, *client_, client_->OpenAdapter("fake1"), TestAddress(1));
    EXPECT_EQ(connection_.completed.connection_established().handoff_secret().size(), 16u);
  }

  HandoffFetcher NewFetcher() {
    return HandoffFetcher(ConnectAs(::getuid(), ::getgid(), daemon_->handoff_path(), SOCK_SEQPACKET));
  }
  v1::HandoffRequest ActiveRequest() const {
    return HandoffRequestOf(*client_, connection_.active, connection_.completed);
  }
  v1::HandoffRequest PassiveRequest() const {
    return HandoffRequestOf(*server_, connection_.passive, connection_.accepted);
  }
  // Fetches and acknowledges.
  UniqueFd Take(const v1::HandoffRequest& request) {
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send(request.SerializeAsString()));
    const auto reply = fetcher.Receive();
    EXPECT_TRUE(reply && reply->outcome().status() == v1::STATUS_SUCCESS && fetcher.transport);
    EXPECT_TRUE(iwarp::DecodeConnectionState(reply->connection_state()).ok());
    EXPECT_TRUE(fetcher.Acknowledge(request.connector_id()));
    // The broker closes once it has heard.
    EXPECT_FALSE(fetcher.Receive());
    return std::move(fetcher.transport);
  }
  bool AwaitsHandoff(uint64_t connector) {
    bool awaits = false;
    daemon_->OnLoop([&](const Broker& broker) {
      awaits = broker.core().records().connectors.at(ConnectorId(connector)).awaits_handoff;
    });
    return awaits;
  }

  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
  std::unique_ptr<TestClient> server_;
  std::unique_ptr<TestClient> client_;
  TestConnection connection_;
};

TEST_F(HandoffTest, GivesEachClientItsEndOfTheConnection) {
  Start();
  const UniqueFd active = Take(ActiveRequest());
  const UniqueFd passive = Take(PassiveRequest());
  EXPECT_TRUE(Becomes([&] { return !AwaitsHandoff(connection_.active) && !AwaitsHandoff(connection_.passive); }));
  ASSERT_EQ(::write(active.get(), "hello", 5), 5);
  char bytes[8] = {};
  ASSERT_EQ(::read(passive.get(), bytes, sizeof bytes), 5);
  EXPECT_STREQ(bytes, "hello");
}

TEST_F(HandoffTest, TheBrokerKeepsNoCopyOnceItIsTaken) {
  Start();
  UniqueFd active = Take(ActiveRequest());
  const UniqueFd passive = Take(PassiveRequest());
  active.Reset();
  pollfd readable = {.fd = passive.get(), .events = POLLIN};
  ASSERT_EQ(::poll(&readable, 1, 30000), 1);
  char byte = 0;
  EXPECT_EQ(::read(passive.get(), &byte, 1), 0);
  // The client tells the broker of the end that only it sees.
  v1::ReportConnectionEndRequest report;
  report.set_connector_id(connection_.passive);
  EXPECT_EQ(NdkStatusOf(server_->Ask(&v1::Broker::Stub::ReportConnectionEnd, report)), NdkStatus::kSuccess);
}

struct BadRequest {
  const char* name;
  std::function<void(v1::HandoffRequest&)> spoil;
  v1::NdkStatus status;
};

TEST_F(HandoffTest, AWrongRequestIsRefusedAndTheRightOneStillGetsTheTransport) {
  Start();
  const auto flip = [](std::string* secret, size_t byte) { (*secret)[byte] = static_cast<char>((*secret)[byte] ^ 1); };
  const BadRequest rows[] = {
      {"no session", [](auto& r) { r.set_session_id(0); }, v1::STATUS_ACCESS_DENIED},
      {"an unknown session", [](auto& r) { r.set_session_id(4711); }, v1::STATUS_ACCESS_DENIED},
      {"another session", [&](auto& r) { r.set_session_id(server_->session_id()); }, v1::STATUS_ACCESS_DENIED},
      {"the session's secret", [&](auto& r) { flip(r.mutable_session_secret(), 0); }, v1::STATUS_ACCESS_DENIED},
      {"the hand-off's secret", [&](auto& r) { flip(r.mutable_handoff_secret(), 15); }, v1::STATUS_ACCESS_DENIED},
      {"an unknown connector", [](auto& r) { r.set_connector_id(4711); }, v1::STATUS_ACCESS_DENIED},
      {"another's connector", [&](auto& r) { r.set_connector_id(connection_.passive); }, v1::STATUS_ACCESS_DENIED},
      {"short session secret", [](auto& r) { r.set_session_secret("x"); }, v1::STATUS_INVALID_PARAMETER},
      {"short hand-off secret", [](auto& r) { r.set_handoff_secret("x"); }, v1::STATUS_INVALID_PARAMETER},
      {"too long a record", [](auto& r) { r.set_handoff_secret(std::string(300, 'x')); }, v1::STATUS_INVALID_PARAMETER},
  };
  for (const BadRequest& row : rows) {
    v1::HandoffRequest request = ActiveRequest();
    row.spoil(request);
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send(request.SerializeAsString()));
    const auto reply = fetcher.Receive();
    ASSERT_TRUE(reply) << row.name;
    EXPECT_EQ(reply->outcome().status(), row.status) << row.name;
    EXPECT_FALSE(fetcher.transport) << row.name;
    EXPECT_EQ(reply->connection_state(), "") << row.name;
    EXPECT_FALSE(fetcher.Receive()) << row.name;
  }
  EXPECT_TRUE(Take(ActiveRequest()));
}

TEST_F(HandoffTest, GarbageIsRefused) {
  Start();
  for (const std::string& record : {std::string("\xff\xff\xff"), std::string(256, '\x80'), std::string(100000, 'x')}) {
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send(record));
    const auto reply = fetcher.Receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->outcome().status(), v1::STATUS_INVALID_PARAMETER);
    EXPECT_FALSE(fetcher.Receive());
  }
  EXPECT_TRUE(Take(ActiveRequest()));
}

TEST_F(HandoffTest, ATransportIsGivenOnce) {
  Start();
  // While it is on the way, and when it has been taken.
  HandoffFetcher first = NewFetcher();
  EXPECT_TRUE(first.Send(ActiveRequest().SerializeAsString()));
  ASSERT_TRUE(first.Receive());
  for (int i = 0; i < 2; ++i) {
    HandoffFetcher second = NewFetcher();
    EXPECT_TRUE(second.Send(ActiveRequest().SerializeAsString()));
    const auto refusal = second.Receive();
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->outcome().status(), i == 0 ? v1::STATUS_ACCESS_DENIED : v1::STATUS_CONNECTION_ABORTED);
    EXPECT_FALSE(second.transport);
    if (i == 0) {
      EXPECT_TRUE(first.Acknowledge(connection_.active));
      EXPECT_FALSE(first.Receive());
    }
  }
}

TEST_F(HandoffTest, AnotherUserDoesNotGetIt) {
  Start();
  UniqueFd socket = ConnectAs(54321, 54321, daemon_->handoff_path(), SOCK_SEQPACKET);
  if (!socket) GTEST_SKIP() << "needs a root that may become other users";
  HandoffFetcher fetcher(std::move(socket));
  EXPECT_TRUE(fetcher.Send(ActiveRequest().SerializeAsString()));
  const auto reply = fetcher.Receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome().status(), v1::STATUS_ACCESS_DENIED);
  EXPECT_FALSE(fetcher.transport);
  EXPECT_TRUE(Take(ActiveRequest()));
}

TEST_F(HandoffTest, AnotherProcessOfTheUserDoesNotGetIt) {
  Start();
  // The socket of a child, by which the kernel knows it, in the hands of its parent.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const std::string path = daemon_->handoff_path();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sockaddr_un address = {.sun_family = AF_UNIX};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(1);
    ::_exit(SendWithDescriptor(ends[1], "x", fd, 0) ? 0 : 1);
  }
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ASSERT_EQ(::recvmsg(ends[0], &message, MSG_CMSG_CLOEXEC), 1);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
  HandoffFetcher fetcher{UniqueFd(fd)};
  EXPECT_TRUE(fetcher.Send(ActiveRequest().SerializeAsString()));
  const auto reply = fetcher.Receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome().status(), v1::STATUS_ACCESS_DENIED);
  EXPECT_FALSE(fetcher.transport);
  EXPECT_TRUE(Take(ActiveRequest()));
}

TEST_F(HandoffTest, AClientThatLeavesBeforeItAcknowledgesLosesTheConnection) {
  Start();
  const UniqueFd passive = Take(PassiveRequest());
  {
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send(ActiveRequest().SerializeAsString()));
    ASSERT_TRUE(fetcher.Receive());
    EXPECT_TRUE(fetcher.transport);
  }
  const v1::DisconnectEvent event = client_->WaitForDisconnect(connection_.active);
  EXPECT_EQ(event.status(), v1::STATUS_CONNECTION_ABORTED);
}

// Where the broker dies, what is marked as sent is taken for fetched.
TEST_F(HandoffTest, WhatCouldNotBeSentIsNotMarkedAsSentAndIsThereForTheNextFetch) {
  Start();
  std::vector<bool> marks;
  daemon_->OnHandoffs([&](const Broker& broker, HandoffTable& handoffs) {
    const auto& connector = broker.core().records().connectors.at(ConnectorId(connection_.active));
    Handoff* const handoff = handoffs.Find(connector.connection);
    ASSERT_NE(handoff, nullptr);
    handoff->on_sending = [&, on_sending = handoff->on_sending](bool sent) {
      marks.push_back(sent);
      on_sending(sent);
    };
    // The loop hears of the request when its client has gone.
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send(ActiveRequest().SerializeAsString()));
  });
  EXPECT_TRUE(Becomes([&] {
    size_t made = 0;
    daemon_->OnLoop([&](const Broker&) { made = marks.size(); });
    return made == 2;
  }));
  EXPECT_EQ(marks, (std::vector<bool>{true, false}));
  EXPECT_TRUE(Take(ActiveRequest()));
}

TEST_F(HandoffTest, AWrongAcknowledgementIsNone) {
  Start();
  for (const std::string& record : {std::string("\xff"), std::string()}) {
    HandoffFetcher fetcher = NewFetcher();
    EXPECT_TRUE(fetcher.Send((record.empty() ? PassiveRequest() : ActiveRequest()).SerializeAsString()));
    ASSERT_TRUE(fetcher.Receive());
    EXPECT_TRUE(fetcher.Send(record));
    EXPECT_FALSE(fetcher.Receive());
  }
  EXPECT_EQ(client_->WaitForDisconnect(connection_.active).status(), v1::STATUS_CONNECTION_ABORTED);
  EXPECT_EQ(server_->WaitForDisconnect(connection_.passive).status(), v1::STATUS_CONNECTION_ABORTED);
}

TEST_F(HandoffTest, WhoSaysNothingIsLeftAfterAWhile) {
  Configuration configuration = TestConfiguration();
  // Enough for one that does say something, on a busy machine too.
  configuration.patience = absl::Seconds(2);
  Start(configuration);
  HandoffFetcher silent = NewFetcher();
  EXPECT_FALSE(silent.Receive());
}

// As it may be stopped meanwhile.
TEST_F(HandoffTest, WhoHasTheTransportMayAcknowledgeItLater) {
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Seconds(2);
  Start(configuration);
  HandoffFetcher late = NewFetcher();
  EXPECT_TRUE(late.Send(ActiveRequest().SerializeAsString()));
  ASSERT_TRUE(late.Receive());
  // Came later, and so is left later than the other would be.
  HandoffFetcher silent = NewFetcher();
  EXPECT_FALSE(silent.Receive());
  EXPECT_TRUE(late.Acknowledge(connection_.active));
  EXPECT_FALSE(late.Receive());
  const UniqueFd passive = Take(PassiveRequest());
  ASSERT_EQ(::send(late.transport.get(), "hello", 5, MSG_NOSIGNAL), 5);
  char bytes[8] = {};
  ASSERT_EQ(::read(passive.get(), bytes, sizeof bytes), 5);
  EXPECT_STREQ(bytes, "hello");
}

TEST_F(HandoffTest, WhoNeverAcknowledgesTheTransportIsLeftWithTheConnection) {
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Seconds(2);
  configuration.limits.handoff_timeout = absl::Seconds(1);
  configuration.limits.session_grace = absl::Seconds(1);
  Start(configuration);
  HandoffFetcher forgetful = NewFetcher();
  EXPECT_TRUE(forgetful.Send(ActiveRequest().SerializeAsString()));
  ASSERT_TRUE(forgetful.Receive());
  EXPECT_EQ(client_->WaitForDisconnect(connection_.active).status(), v1::STATUS_IO_TIMEOUT);
  EXPECT_FALSE(forgetful.Receive());
}

TEST_F(HandoffTest, ATransportThatNobodyFetchesIsGivenUp) {
  Configuration configuration = TestConfiguration();
  configuration.limits.handoff_timeout = absl::Milliseconds(50);
  configuration.limits.session_grace = absl::Milliseconds(50);
  Start(configuration);
  EXPECT_EQ(client_->WaitForDisconnect(connection_.active).status(), v1::STATUS_IO_TIMEOUT);
  HandoffFetcher late = NewFetcher();
  EXPECT_TRUE(late.Send(ActiveRequest().SerializeAsString()));
  const auto reply = late.Receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome().status(), v1::STATUS_CONNECTION_ABORTED);
  EXPECT_FALSE(late.transport);
}

TEST_F(HandoffTest, OneUserLeavesRoomForOthers) {
  Start();
  std::vector<UniqueFd> somebodys;
  for (int i = 0; i < 300; ++i) {
    UniqueFd socket = ConnectAs(54321, 54321, daemon_->handoff_path(), SOCK_SEQPACKET);
    if (!socket && i == 0) GTEST_SKIP() << "needs a root that may become other users";
    ASSERT_TRUE(socket) << i;
    somebodys.push_back(std::move(socket));
  }
  EXPECT_TRUE(Take(ActiveRequest()));
  // Those beyond the limit were closed, the others are still waited for.
  const auto closed = [&] {
    return std::count_if(somebodys.begin(), somebodys.end(), [](const UniqueFd& socket) {
      char byte = 0;
      return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
    });
  };
  EXPECT_TRUE(Becomes([&] { return closed() == 300 - 256; }));
  somebodys.clear();
  EXPECT_TRUE(Take(PassiveRequest()));
}

}  // namespace
}  // namespace rdmabroker
