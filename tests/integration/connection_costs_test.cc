// SPDX-License-Identifier: Apache-2.0

// What a connection over user-space iWARP takes of a broker, for clients of the library: messages, commits and system
// calls, which the machine's load does not blur. Load only merges some of them, so each bound is the number without it.

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/blocking.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"
#include "tests/integration/stream_messages.h"
#include "tests/integration/system_calls.h"
#include "tests/needed.h"

namespace rdmabroker {
namespace {

constexpr int kLives = 10;

struct Costs {
  StreamMessages messages;
  int commits = 0;

  Costs operator-(const Costs& other) const { return {messages - other.messages, commits - other.commits}; }
};

// An outcome that a callback tells, and what the side had cost by then.
struct Told {
  client::Outcome outcome;
  Costs costs;
};

// A client of a broker, and what that broker does for it, if it has no other.
class Side {
 public:
  explicit Side(const RunningBroker& broker)
      : mark_(broker.folder() + "/state/last_commit"),
        stream_(CountedStreams()),
        client_(broker.control_socket()),
        ip_(client_.ip()) {}

  LibraryClient& client() { return client_; }
  const IpAddress& ip() const { return ip_; }
  QueuePair* NewQueuePair() { return client_.side.NewQueuePair({}, nullptr); }

  // Of the broker's whole life.
  Costs SoFar() const {
    uint64_t commits = 0;
    std::ifstream file(mark_, std::ios::binary);
    EXPECT_TRUE(file.read(reinterpret_cast<char*>(&commits), sizeof commits)) << mark_;
    return {MessagesOfStream(stream_), static_cast<int>(::le64toh(commits))};
  }
  client::OutcomeCompletion Tells(std::promise<Told>& told) const {
    return [this, &told](const client::Outcome& outcome) { told.set_value({outcome, SoFar()}); };
  }

 private:
  const std::string mark_;
  const size_t stream_;
  LibraryClient client_;
  const IpAddress ip_;
};

Costs AwaitSuccess(std::promise<Told>& told) {
  const Told what = told.get_future().get();
  EXPECT_TRUE(what.outcome.ok()) << what.outcome.hint;
  return what.costs;
}

// What both sides' steps have cost. A connector's handshake is from Connect until CompleteConnect has completed, a
// listener's from the delivery until Accept has.
struct LifeCosts {
  Costs connectors_handshake, connectors_life, listeners_handshake, listeners_life;
};

// Connects two sides one after the other, each time from nothing to nothing.
class Lives {
 public:
  Lives(Side& listening, Side& connecting) : listening_(listening), connecting_(connecting) {
    auto [outcome, made] = client::BlockingListener::Listen(listening_.client().adapter, {listening_.ip(), 0});
    EXPECT_TRUE(outcome.ok()) << outcome.hint;
    listener_ = std::move(made);
    // The first life makes things that stay.
    Live();
  }

  LifeCosts Live() {
    const Costs connecting = connecting_.SoFar(), listening = listening_.SoFar();
    LifeCosts costs;
    const auto connector = Create();
    const Costs created = connecting_.SoFar();
    std::promise<Told> connected, accepted;
    std::promise<void> ended;
    QueuePair* const queue_pairs[] = {connecting_.NewQueuePair(), listening_.NewQueuePair()};
    Connect(connector, queue_pairs[0], connected);
    const auto accepting =
        Needed(listener_->Next(absl::ToChronoMilliseconds(kTestPatience)).object, "peer that connects");
    accepting->Accept(
        queue_pairs[1], {}, [&](const client::DisconnectEvent&) { ended.set_value(); }, listening_.Tells(accepted));
    costs.connectors_handshake = AwaitSuccess(connected) - created;
    costs.listeners_handshake = AwaitSuccess(accepted) - listening;
    std::promise<Told> disconnected;
    connector->Disconnect(connecting_.Tells(disconnected));
    ended.get_future().wait();
    EXPECT_TRUE(client::BlockingDisconnect(accepting).ok());
    AwaitSuccess(disconnected);
    client::BlockingClose(connector);
    client::BlockingClose(accepting);
    for (QueuePair* const queue_pair : queue_pairs) client::BlockingClose(queue_pair);
    costs.connectors_life = connecting_.SoFar() - connecting;
    costs.listeners_life = listening_.SoFar() - listening;
    return costs;
  }

 private:
  std::shared_ptr<client::Connector> Create() {
    std::promise<std::shared_ptr<client::Connector>> made;
    connecting_.client().adapter->CreateConnector(
        [&](const client::Outcome& outcome, std::shared_ptr<client::Connector> connector) {
          EXPECT_TRUE(outcome.ok()) << outcome.hint;
          made.set_value(std::move(connector));
        });
    return made.get_future().get();
  }

  void Connect(const std::shared_ptr<client::Connector>& connector, QueuePair* queue_pair,
               std::promise<Told>& connected) {
    connector->Connect(queue_pair, {.source = {connecting_.ip(), 0}, .destination = listener_->address()},
                       [this, connector, &connected](const client::Outcome& outcome) {
                         if (!outcome.ok()) return connecting_.Tells(connected)(outcome);
                         connector->CompleteConnect({}, connecting_.Tells(connected));
                       });
  }

  Side& listening_;
  Side& connecting_;
  std::unique_ptr<client::BlockingListener> listener_;
};

class ConnectionCosts : public testing::Test {
 protected:
  // By themselves in their network, brokers find each port free at once.
  static void SetUpTestSuite() {
    ASSERT_EQ(EnterOwnNamespaces(), "");
    CountStreamMessages();
  }
};

struct Row {
  const char* name;
  Costs LifeCosts::*costs;
  int to_broker;
  int to_client;
  int commits;
};

// Commits of a connector's handshake: of Connect, of the address, of the socket, of the reply, of CompleteConnect, of
// the connection, and of its hand-off; of a listener's: of the request, of Accept, of the connection, and of its
// hand-off. Its end takes two on each side, a connector's two more for its address, and creation one.
const Row kRows[] = {
    {"a connector's handshake", &LifeCosts::connectors_handshake, 2, 3, 7},
    {"a listener's handshake", &LifeCosts::listeners_handshake, 1, 3, 4},
    {"a connector's life", &LifeCosts::connectors_life, 5, 6, 12},
    {"a listener's life", &LifeCosts::listeners_life, 3, 5, 7},
};

TEST_F(ConnectionCosts, EachSideHasItsMessagesAndCommitsAndNoMore) {
  const RunningBroker listenings, connectings;
  Side listening(listenings), connecting(connectings);
  Lives lives(listening, connecting);
  for (int i = 0; i < kLives; ++i) {
    const LifeCosts costs = lives.Live();
    for (const Row& row : kRows) {
      SCOPED_TRACE(row.name);
      const Costs& seen = costs.*row.costs;
      EXPECT_LE(seen.messages.to_broker, row.to_broker);
      EXPECT_LE(seen.messages.to_client, row.to_client);
      EXPECT_LE(seen.commits, row.commits + seen.messages.acknowledgements);
    }
  }
}

// For both sides of a connection, from its creation to its last close. How the octets of messages arrive decides how
// many turns and reads they take: at most one for each of the clients' 8 messages and of gRPC's acknowledgements of 11,
// and for each of the handshake's 3. In quiet these are 17 reads and 15 turns, and 93 calls in all.
const SystemCalls::Counts kCalls = {
    {SYS_recvfrom, 22},  {SYS_epoll_wait, 22}, {SYS_sendto, 14}, {SYS_setsockopt, 13}, {SYS_epoll_ctl, 11},
    {SYS_getsockopt, 8}, {SYS_accept4, 5},     {SYS_close, 5},   {SYS_recvmsg, 4},     {SYS_bind, 2},
    {SYS_sendmsg, 2},    {SYS_socket, 2},      {SYS_connect, 1},
};

TEST_F(ConnectionCosts, ABrokerMakesNoFurtherSystemCalls) {
  constexpr int kGroups = 10;
  const RunningBroker broker;
  Side listening(broker), connecting(broker);
  Lives lives(listening, connecting);
  SystemCalls calls(broker.pid());
  // Of each call the fewest that any group has made: what a slow machine adds is not in all of them.
  SystemCalls::Counts fewest;
  for (int group = 0; group < kGroups; ++group) {
    const SystemCalls::Counts before = calls.Read();
    for (int i = 0; i < kLives; ++i) lives.Live();
    for (auto [call, count] : calls.Read()) {
      if (const auto known = before.find(call); known != before.end()) count -= known->second;
      const auto [least, added] = fewest.emplace(call, group == 0 ? count : 0);
      least->second = std::min(least->second, count);
    }
  }
  for (const auto& [call, count] : fewest) {
    const auto most = kCalls.find(call);
    EXPECT_LE(count / kLives, most == kCalls.end() ? 0 : most->second)
        << "for a connection, of " << Described({{call, count}});
  }
  EXPECT_GE(fewest[SYS_connect], kLives) << "not all is counted";
}

}  // namespace
}  // namespace rdmabroker
