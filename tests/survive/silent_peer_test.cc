// SPDX-License-Identifier: Apache-2.0

// Peers whose host falls silent, between two networks of the test's own: over user-space iWARP, by two brokers and the
// client library, or by the data path alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/blocking.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/side.h"
#include "dataplane/testing/tcp_pair.h"
#include "dataplane/unique_fd.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/integration/neighbour.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"
#include "tests/survive/disconnect_events.h"

namespace rdmabroker {
namespace {

using std::chrono::seconds;

constexpr absl::Duration kKeepalive = absl::Seconds(8);
// What a busy machine may need beyond that. That the time itself is kept, peer_silence_test shows without a clock.
constexpr absl::Duration kDelay = kKeepalive;
// What clocks differ by: TCP tells the silence in whole ticks of up to 10 ms, and the time of day may be slewed.
constexpr absl::Duration kClocks = absl::Milliseconds(100);
// So long that whoever errs has done it.
constexpr absl::Duration kLong = absl::Seconds(10);

constexpr char kSoonOver[] = "timeouts.connect_ms = 2000\ntimeouts.establish_ms = 2000";

SideOptions With(absl::Duration keepalive) { return {.keepalive = absl::ToChronoSeconds(keepalive)}; }

// The two networks of this process, which brings them about once.
Neighbour& Far() {
  static auto* const kFar = [] {
    EXPECT_EQ(EnterOwnNamespaces(), "");
    return new Neighbour;
  }();
  return *kFar;
}

std::unique_ptr<RunningBroker> FarBroker() {
  std::unique_ptr<RunningBroker> broker;
  Far().Run([&broker] { broker = std::make_unique<RunningBroker>(kSoonOver); });
  return broker;
}

// One end, of a peer that cannot have been heard after `silent`, nor for the last time before `heard`.
void ExpectDeath(const DisconnectEvents& events, absl::Time heard, absl::Time silent) {
  EXPECT_TRUE(Becomes([&] { return events.count() > 0; })) << "nobody has noticed";
  EXPECT_THAT(events.Statuses(), testing::ElementsAre(NdkStatus::kConnectionAborted));
  EXPECT_GE(events.last() - heard, kKeepalive - kClocks);
  EXPECT_LE(events.last() - silent, kKeepalive + kDelay);
}

SocketAddress At(const char* ip, uint16_t port = 0) { return {*IpAddress::Parse(ip), port}; }

// A client in each network, each with a broker of its own.
struct Clients {
  Clients(RunningBroker& near_broker, RunningBroker& far_broker, absl::Duration keepalive)
      : near(near_broker.control_socket(), "iwarp0", With(keepalive)),
        far(far_broker.control_socket(), "iwarp0", With(keepalive)) {}

  // The near one connects to the far one.
  void Establish() {
    auto [listening, listener] = client::BlockingListener::Listen(far.adapter, At(Neighbour::kItsAddress));
    ASSERT_TRUE(listening.ok()) << listening.hint;
    client::Outcome accepted;
    std::thread accepting([&, from = listener.get()] { accepted = far.Accept(*from, at_far.Note()); });
    const client::Outcome connected = near.Connect(At(Neighbour::kAddress).ip, listener->address(), at_near.Note());
    accepting.join();
    ASSERT_TRUE(connected.ok()) << connected.hint;
    ASSERT_TRUE(accepted.ok()) << accepted.hint;
  }
  void ExpectNoEvents() {
    EXPECT_EQ(at_near.count(), 0u);
    EXPECT_EQ(at_far.count(), 0u);
  }
  void ExpectDeath(absl::Time heard, absl::Time silent) {
    for (const DisconnectEvents* const events : {&at_near, &at_far}) {
      rdmabroker::ExpectDeath(*events, heard, silent);
    }
  }
  void ExpectCarries() {
    ASSERT_EQ(far.side.qp->Receive(Context(1), {}), NdkStatus::kSuccess);
    ASSERT_EQ(near.side.qp->Send(Context(2), {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(far.side.Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(near.side.Next().status, NdkStatus::kSuccess);
  }
  void Close() {
    for (LibraryClient* const client : {&near, &far}) {
      client::BlockingClose(std::exchange(client->connector, nullptr));
    }
  }

  DisconnectEvents at_near, at_far;
  LibraryClient near, far;
};

class SilentPeerTest : public testing::Test {
 protected:
  SilentPeerTest() {
    Far();
    near_broker = std::make_unique<RunningBroker>(kSoonOver);
    far_broker = FarBroker();
    clients = std::make_unique<Clients>(*near_broker, *far_broker, kKeepalive);
  }
  // The next test finds both networks whole.
  ~SilentPeerTest() override { Far().Lose(false); }

  std::unique_ptr<RunningBroker> near_broker, far_broker;
  std::unique_ptr<Clients> clients;
};

TEST_F(SilentPeerTest, AnIdleConnectionEndsOnceOnEitherSide) {
  ASSERT_NO_FATAL_FAILURE(clients->Establish());
  for (LibraryClient* const client : {&clients->near, &clients->far}) {
    ASSERT_EQ(client->side.qp->Receive(Context(7), {}), NdkStatus::kSuccess);
  }
  absl::SleepFor(kLong);
  clients->ExpectNoEvents();
  // Before it was asked for the last time at the latest.
  const absl::Time silent = absl::Now(), heard = silent - kKeepalive / 2;
  Far().Lose(true);
  clients->ExpectDeath(heard, silent);
  for (LibraryClient* const client : {&clients->near, &clients->far}) {
    EXPECT_EQ(client->side.Next().status, NdkStatus::kCancelled);
    const client::Outcome outcome = client::BlockingDisconnect(client->connector);
    EXPECT_TRUE(outcome.ok()) << outcome.hint;
  }
  clients->Close();
  EXPECT_EQ(clients->at_near.count() + clients->at_far.count(), 2u);
}

TEST_F(SilentPeerTest, ABusyConnectionEndsOnceOnEitherSide) {
  Buffer ours(clients->near.side.domain, 64, kAllAccess), theirs(clients->far.side.domain, 64, kAllAccess);
  const absl::Time heard = absl::Now();
  ASSERT_NO_FATAL_FAILURE(clients->Establish());
  const absl::Time silent = absl::Now();
  Far().Lose(true);
  const Sge sge = ours.sge();
  for (const uintptr_t number : {1, 2}) {
    ASSERT_EQ(clients->near.side.qp->Read(Context(number), {&sge, 1}, theirs.remote(), 0), NdkStatus::kSuccess);
  }
  clients->ExpectDeath(heard, silent);
  const std::vector<ResultEx> results = clients->near.side.Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kIoTimeout);
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  clients->Close();
}

TEST_F(SilentPeerTest, APulledPlugIsNoticedAtBothEndsOfTheConnection) {
  const absl::Time heard = absl::Now();
  ASSERT_NO_FATAL_FAILURE(clients->Establish());
  const absl::Time silent = absl::Now();
  Far().PullPlug(true);
  clients->ExpectDeath(heard, silent);
  Far().PullPlug(false);
  clients->Close();
}

TEST_F(SilentPeerTest, WithoutKeepaliveAConnectionOutlastsTheSilence) {
  Clients patient(*near_broker, *far_broker, absl::ZeroDuration());
  ASSERT_NO_FATAL_FAILURE(patient.Establish());
  ASSERT_NO_FATAL_FAILURE(clients->Establish());
  Far().Lose(true);
  EXPECT_TRUE(Becomes([this] { return clients->at_near.count() > 0; }));
  absl::SleepFor(kLong);
  patient.ExpectNoEvents();
  Far().Lose(false);
  patient.ExpectCarries();
  patient.Close(), clients->Close();
}

// Its host lives.
TEST_F(SilentPeerTest, AStoppedPeerIsNotDead) {
  LibraryClient& client = clients->near;
  auto [listening, listener] = client::BlockingListener::Listen(client.adapter, At(Neighbour::kAddress));
  ASSERT_TRUE(listening.ok()) << listening.hint;
  ChildProcess peer({"tests/integration/connected_client", near_broker->control_socket(), "iwarp0", "1",
                     listener->address().ToString()});
  DisconnectEvents events;
  const client::Outcome accepted = client.Accept(*listener, events.Note());
  ASSERT_TRUE(accepted.ok()) << accepted.hint;
  peer.ReadLine();
  ASSERT_EQ(peer.ReadLine(), "there");
  peer.Signal(SIGSTOP);
  absl::SleepFor(kLong);
  EXPECT_EQ(events.count(), 0u);
  peer.Signal(SIGCONT);
  EXPECT_EQ(peer.Finish(), 0);
  EXPECT_TRUE(Becomes([&] { return events.count() == 1; }));
  client::BlockingClose(std::exchange(client.connector, nullptr));
}

TEST_F(SilentPeerTest, AConnectToAHostThatIsSilentTimesOut) {
  Far().Lose(true);
  EXPECT_EQ(clients->near.Connect(At(Neighbour::kAddress).ip, At(Neighbour::kItsAddress, 7)).status,
            NdkStatus::kIoTimeout);
  clients->near.connector = nullptr;
}

TEST_F(SilentPeerTest, AHandshakeWhosePeerFallsSilentTimesOutOnEitherSide) {
  LibraryClient& near = clients->near;
  auto [listening, listener] = client::BlockingListener::Listen(near.adapter, At(Neighbour::kAddress));
  ASSERT_TRUE(listening.ok()) << listening.hint;
  client::Outcome connected;
  std::thread connecting(
      [&, to = listener->address()] { connected = clients->far.Connect(At(Neighbour::kItsAddress).ip, to); });
  auto [arrived, connector] = listener->Next(absl::ToChronoMilliseconds(kTestPatience));
  Far().Lose(true);
  EXPECT_TRUE(arrived.ok()) << arrived.hint;
  if (arrived.ok()) {
    EXPECT_EQ(client::BlockingAccept(connector, near.side.qp, {}, {}).status, NdkStatus::kIoTimeout);
    client::BlockingClose(connector);
  }
  connecting.join();
  EXPECT_EQ(connected.status, NdkStatus::kIoTimeout);
  clients->far.connector = nullptr;
}

// Its message is TCP's to deliver; that nobody takes it is known as of any that is sent.
TEST_F(SilentPeerTest, ACompleteConnectWaitsForNobodyAndItsConnectionEndsByTheKeepalive) {
  LibraryClient& near = clients->near;
  auto [listening, listener] = client::BlockingListener::Listen(clients->far.adapter, At(Neighbour::kItsAddress));
  ASSERT_TRUE(listening.ok()) << listening.hint;
  std::promise<std::shared_ptr<client::Connector>> made;
  near.adapter->CreateConnector([&](const client::Outcome&, const auto& connector) { made.set_value(connector); });
  near.connector = made.get_future().get();
  ASSERT_NE(near.connector, nullptr);
  const absl::Time heard = absl::Now();
  std::promise<NdkStatus> connected, completed;
  near.connector->Connect(
      near.side.qp,
      {.source = At(Neighbour::kAddress), .destination = listener->address(), .limits = {}, .private_data = {}},
      [&](const client::Outcome& outcome) { connected.set_value(outcome.status); });
  client::Outcome accepted;
  std::thread accepting([&, from = listener.get()] { accepted = clients->far.Accept(*from, clients->at_far.Note()); });
  EXPECT_EQ(connected.get_future().get(), NdkStatus::kSuccess);
  const absl::Time silent = absl::Now();
  Far().Lose(true);
  near.connector->CompleteConnect(clients->at_near.Note(),
                                  [&](const client::Outcome& outcome) { completed.set_value(outcome.status); });
  EXPECT_EQ(completed.get_future().get(), NdkStatus::kSuccess);
  ExpectDeath(clients->at_near, heard, silent);
  accepting.join();
  ASSERT_EQ(accepted.status, NdkStatus::kIoTimeout);
  clients->Close();
  EXPECT_EQ(clients->at_near.count(), 1u);
  EXPECT_EQ(clients->at_far.count(), 0u);
}

// One end of a TCP connection in each network.
TcpPair ConnectToFar() {
  UniqueFd listener;
  Far().Run([&] { listener.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); });
  return ConnectTcpPair(listener, At(Neighbour::kItsAddress).ip);
}

// TCP asks one with a closed window after 0.2, 0.6, 1.4, 3 and 6.2 seconds.
TEST(SilentPeerDataPathTest, APeerThatTakesNothingIsNotDead) {
  constexpr uint32_t kSends = 64;
  TcpPair pair = ConnectTcpPair();
  iwarp::Side side(With(absl::Seconds(2)));
  Buffer buffer(side.domain, 256 << 10, kAllAccess);
  ASSERT_EQ(side.Attach(std::move(pair.active), iwarp::StatesFor().active), NdkStatus::kSuccess);
  const Sge sge = buffer.sge();
  for (uintptr_t i = 0; i < kSends; ++i) {
    ASSERT_EQ(side.qp->Send(Context(i), {&sge, 1}, 0), NdkStatus::kSuccess);
  }
  absl::SleepFor(kLong);
  EXPECT_EQ(side.EndCount(), 0u);
  std::thread taking([&] {
    std::vector<char> bytes(1 << 20);
    while (::recv(pair.passive.get(), bytes.data(), bytes.size(), 0) > 0) continue;
  });
  for (const ResultEx& result : side.Results(kSends)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
  EXPECT_EQ(side.EndCount(), 0u);
  CloseAndWait(std::exchange(side.qp, nullptr));
  taking.join();
}

// How often this network has been told by ICMP that something cannot be reached.
int64_t Unreachable() {
  std::ifstream file("/proc/self/net/snmp");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Icmp:", 0) == 0) lines.push_back(line);
  }
  if (lines.size() != 2) return -1;
  std::istringstream names(lines[0]), values(lines[1]);
  for (std::string name, value; names >> name && values >> value;) {
    if (name == "InDestUnreachs") return std::stoll(value);
  }
  return -1;
}

// TCP notes it as an error of the socket's, and goes on.
TEST(SilentPeerDataPathTest, AHalfOpenConnectionSurvivesAMomentInWhichItsPeerCannotBeReached) {
  Far();
  TcpPair pair = ConnectToFar();
  iwarp::Side side;
  Buffer buffer(side.domain, 1000, kAllAccess);
  ASSERT_EQ(side.Attach(std::move(pair.active), iwarp::StatesFor().active), NdkStatus::kSuccess);
  ::shutdown(pair.passive.get(), SHUT_WR);
  EXPECT_TRUE(side.End().graceful);
  Far().PullPlug(true);
  const int64_t before = Unreachable();
  ASSERT_GE(before, 0);
  const Sge sge = buffer.sge();
  ASSERT_EQ(side.qp->Send(Context(1), {&sge, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  EXPECT_TRUE(Becomes([&] { return Unreachable() > before; }));
  std::array<Result, 1> none;
  EXPECT_EQ(side.cq->GetResults(none), 0u);
  Far().PullPlug(false);
  ASSERT_EQ(side.qp->Send(Context(2), {&sge, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  std::vector<char> bytes(buffer.bytes().size());
  size_t got = 0;
  for (ssize_t more = 1; more > 0 && got < 2 * bytes.size(); got += static_cast<size_t>(std::max<ssize_t>(more, 0))) {
    more = ::recv(pair.passive.get(), bytes.data(), bytes.size(), 0);
  }
  EXPECT_GE(got, 2 * bytes.size());
}

}  // namespace
}  // namespace rdmabroker
