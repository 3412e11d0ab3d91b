// SPDX-License-Identifier: Apache-2.0

// What the clients of rdma-brokerd notice of its death: nothing but a wait. Over user-space iWARP, by the client
// library.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/fabric/iwarp/testing/raw_peer.h"
#include "broker/runtime/exit_status.h"
#include "dataplane/ndk/status.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/child_process.h"
#include "tests/control/hanging_file.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/outside.h"

namespace rdmabroker {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckResponse;
using ndkpi::Call;
using ndkpi::Connection;
using ndkpi::Handshake;
using ndkpi::Party;
using ndkpi::TestListener;
using ndkpi::World;

const ndkpi::Surroundings& On() {
  static const auto* const kOn = new ndkpi::Surroundings(ndkpi::Prepare("iwarp"));
  return *kOn;
}

class RestartTest : public testing::Test {
 protected:
  explicit RestartTest(const std::string& settings = "", const std::vector<std::string>& daemon = {KeptBroker::kDaemon})
      : broker_(std::make_shared<KeptBroker>(ndkpi::OwnPorts() + settings, daemon, logs_.path() + "/log")) {}

  // Before there is a broker, which is to be in the same network.
  static void SetUpTestSuite() { On(); }

  void TearDown() override { std::cout << "The keeper and the daemons said:\n" << broker_->Log(); }

  Party& a() { return world_.a(); }
  Party& b() { return world_.b(); }

  void ExpectUntouched(const Connection& connection) {
    world_.ExpectCarries(connection);
    EXPECT_EQ(connection.active_events.count(), 0u);
    EXPECT_EQ(connection.passive_events.count(), 0u);
  }

  // Accepts what was requested: whether both ends have the connection then.
  bool Ends(Handshake& made) {
    made.accept = b().Accept(made.passive, made.passive_qp, {}, made.passive_events.callback());
    if (!made.connect.Wait().ok()) return false;
    made.complete = a().CompleteConnect(made.active, made.active_events.callback());
    return made.complete.Wait().ok() && made.accept.Wait().ok();
  }

  // Another process is there, and that one has ended by itself: where it takes too long, the keeper kills it.
  void ExpectMadeWay(pid_t former) {
    broker_->AwaitAnother(former);
    EXPECT_THAT(broker_->Log(), testing::HasSubstr(absl::StrCat("[info] child ended pid=", former,
                                                                " status=", kStartAnother, " signal=0")));
  }

  const TemporaryFolder logs_;
  const std::shared_ptr<KeptBroker> broker_;
  World world_{On(), broker_};
};

TEST_F(RestartTest, ConnectionsCarryOnAndListenersDeliver) {
  const TestListener listener = b().Listening();
  std::vector<Connection> connections = {world_.Establish(a(), b(), listener)};
  for (int death = 0; death < 3; ++death) {
    broker_->KillDaemon();
    for (const Connection& connection : connections) ExpectUntouched(connection);
    connections.push_back(world_.Establish(a(), b(), listener));
    for (const Connection& connection : connections) ExpectUntouched(connection);
  }
}

TEST_F(RestartTest, ConnectionsEndInOrderAfterIt) {
  const Connection connection = world_.Establish();
  broker_->KillDaemon();
  world_.Disconnect(a(), b(), connection);
  broker_->KillDaemon();
  world_.Close(connection);
}

TEST_F(RestartTest, AddressesStayTakenUntilTheyAreGivenBack) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  for (int death = 0; death < 3; ++death) {
    broker_->KillDaemon();
    EXPECT_EQ(BindOutside(listener.address), EADDRINUSE);
    EXPECT_EQ(b().Listen(b().NewListener(), listener.address).Status(), NdkStatus::kSharingViolation);
  }
  const Call close = b().Close(listener.object);
  broker_->KillDaemon();
  EXPECT_EQ(BindOutside(listener.address), EADDRINUSE) << "the connection lives";
  world_.Close(connection);
  close.Wait();
  EXPECT_EQ(BindOutside(listener.address), 0);
}

// Every kind of object, made before a death, is there after it, and is closed after another.
TEST_F(RestartTest, ObjectsAreClosedAfterItAsEver) {
  const TestListener idle = b().NewListener();
  const TestListener listener = b().Listening();
  const auto endpoint = a().NewSharedEndpoint(a().At());
  const auto connector = a().NewConnector();
  const Connection connection = world_.EstablishThrough(endpoint, a(), b(), listener);
  broker_->KillDaemon();
  const TestListener another = b().Listening();
  const Connection second = world_.EstablishThrough(endpoint, a(), b(), another);
  ExpectUntouched(connection);
  broker_->KillDaemon();
  ExpectUntouched(second);
  const Call closes[] = {b().Close(idle.object), b().Close(listener.object), b().Close(another.object),
                         a().Close(endpoint), a().Close(connector)};
  world_.Close(connection);
  world_.Close(second);
  for (const Call& close : closes) close.Wait();
}

// Requests that are made while there is no daemon, or none that serves yet.
TEST_F(RestartTest, RequestsMeanwhileWaitAndSucceed) {
  const TestListener listener = b().Listening();
  for (int death = 0; death < 5; ++death) {
    broker_->KillDaemon();
    const auto connector = a().NewConnector();
    const Handshake made = world_.Request(a(), b(), listener);
    ASSERT_EQ(b().Reject(made.passive).Status(), NdkStatus::kSuccess);
    EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
    EXPECT_TRUE(a().Close(connector).Wait().ok());
  }
}

// Over user-space iWARP the bytes of a handshake under way go with the process.
TEST_F(RestartTest, AHandshakeUnderWayEndsAndItsPeerTriesAgain) {
  const TestListener listener = b().Listening();
  Handshake requested = world_.Request(a(), b(), listener);
  Handshake replied = world_.Reply(a(), b(), listener);
  broker_->KillDaemon();
  const client::Outcome connect = requested.connect.Wait();
  EXPECT_EQ(connect.status, NdkStatus::kConnectionAborted) << connect.hint;
  EXPECT_TRUE(connect.retryable);
  EXPECT_EQ(b().Accept(requested.passive, requested.passive_qp).Status(), NdkStatus::kConnectionAborted);
  EXPECT_EQ(replied.accept.Status(), NdkStatus::kConnectionAborted);
  EXPECT_EQ(a().CompleteConnect(replied.active).Status(), NdkStatus::kConnectionAborted);
  ExpectUntouched(world_.Establish(a(), b(), listener));
}

// As an administrator asks for it, and as an operator does by the keeper.
TEST_F(RestartTest, AProcessThatMakesWayIsMissedByNobody) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  for (int restart = 0; restart < 4; ++restart) {
    const pid_t former = broker_->Daemon();
    if (restart % 2 == 0) {
      ASSERT_EQ(::kill(broker_->pid(), SIGUSR2), 0);
    } else {
      const std::vector<std::string> command = {"client/ctl/rdma-brokerctl", "--socket", broker_->control_socket(),
                                                "restart"};
      const Ending ending = RunToEnd(command, broker_->folder() + "/errors" + std::to_string(restart));
      EXPECT_EQ(ending.status, 0) << ending.error;
    }
    ExpectMadeWay(former);
    ExpectUntouched(connection);
    ExpectUntouched(world_.Establish(a(), b(), listener));
  }
}

TEST_F(RestartTest, AProcessThatMakesWayWaitsForNoHandshakeThatNobodyEnds) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  const pid_t former = broker_->Daemon();
  const Handshake undecided = world_.Request(a(), b(), listener);
  ASSERT_EQ(::kill(broker_->pid(), SIGUSR2), 0);
  ExpectMadeWay(former);
  const client::Outcome connect = undecided.connect.Wait();
  EXPECT_EQ(connect.status, NdkStatus::kConnectionAborted) << connect.hint;
  EXPECT_TRUE(connect.retryable);
  ExpectUntouched(connection);
}

// Hears of it when the daemon begins to make way, which is when it leaves to the next what has not begun.
class WayWatch {
 public:
  explicit WayWatch(const KeptBroker& broker) : stub_(Health::NewStub(broker.channel())) {
    context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kTestPatience));
    context_.set_wait_for_ready(true);
    stream_ = stub_->Watch(&context_, {});
    EXPECT_EQ(Next(), HealthCheckResponse::SERVING);
  }
  ~WayWatch() { context_.TryCancel(); }
  WayWatch(const WayWatch&) = delete;
  WayWatch& operator=(const WayWatch&) = delete;

  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    EXPECT_TRUE(stream_->Read(&response)) << "the daemon says nothing of itself";
    return response.status();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
};

// A handshake that takes longer than it is given, as on a busy machine, is cut, and shows nothing: so there is another.
TEST_F(RestartTest, AProcessThatMakesWayLetsHandshakesEnd) {
  constexpr auto kGiven = std::chrono::seconds(1);  // ControlServer::kDrainPatience.
  constexpr int kAttempts = 10;
  const TestListener listener = b().Listening();
  bool ended = false;
  for (int attempt = 0; attempt < kAttempts && !ended; ++attempt) {
    const pid_t former = broker_->Daemon();
    Handshake made = world_.Request(a(), b(), listener);
    WayWatch watch(*broker_);
    const auto asked = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(broker_->pid(), SIGUSR2), 0);
    ASSERT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
    ended = Ends(made);
    ASSERT_TRUE(ended || std::chrono::steady_clock::now() - asked >= kGiven) << "it is cut too soon";
    ExpectMadeWay(former);
    if (ended) ExpectUntouched(made);
  }
  EXPECT_TRUE(ended);
}

// Of a client's and of a stranger's, while a handshake that nobody ends keeps the process from going.
TEST_F(RestartTest, HandshakesThatBeginWhileAProcessMakesWayAreTheNextOnes) {
  const TestListener busy = b().Listening();
  const TestListener listener = b().Listening();
  const TestListener strangers = b().Listening();
  Handshake late;
  late.active = a().NewConnector();
  late.active_qp = a().NewQueuePair();
  late.passive_qp = b().NewQueuePair();
  const Handshake undecided = world_.Request(a(), b(), busy);
  const pid_t former = broker_->Daemon();
  WayWatch watch(*broker_);
  ASSERT_EQ(::kill(broker_->pid(), SIGUSR2), 0);
  ASSERT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
  late.connect = a().Connect(late.active, late.active_qp, listener.address);
  RawPeer stranger = RawPeer::ConnectTo(strangers.address);
  stranger.Send("MPA ID Req Frame" + std::string("\0\1\0\0", 4));
  EXPECT_EQ(undecided.connect.Status(), NdkStatus::kConnectionAborted);
  ExpectMadeWay(former);
  late.passive = listener.Next();
  world_.Finish(late);
  ExpectUntouched(late);
  EXPECT_EQ(listener.delivered(), 1u);
  EXPECT_EQ(b().Reject(strangers.Next()).Status(), NdkStatus::kSuccess);
  EXPECT_TRUE(Becomes([&] { return stranger.Poll(), stranger.received().starts_with("MPA ID Rep Frame"); }));
}

// --- Clients that are not there when the broker is back ---

// A listening client in a process of its own, to which a connects.
class ClientAside {
 public:
  explicit ClientAside(const KeptBroker& broker)
      : process_({"tests/integration/doomed_client", broker.control_socket(), "attached"}) {
    const auto address = SocketAddress::Parse(process_.ReadLine());
    EXPECT_TRUE(address) << "the client does not listen";
    address_ = address.value_or(SocketAddress());
  }

  const SocketAddress& address() const { return address_; }
  ChildProcess& process() { return process_; }
  void ExpectConnected() { EXPECT_EQ(process_.ReadLine(), "there"); }

 private:
  ChildProcess process_;
  SocketAddress address_;
};

// Whoever edits it may make a mistake, and nobody looks at it until the daemon dies at night.
TEST_F(RestartTest, AConfigurationThatHasBecomeBadCostsNoConnection) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  std::ofstream(broker_->folder() + "/broker.toml") << "[limits]\nbacklog = 0\n";
  for (int death = 0; death < 2; ++death) {
    broker_->KillDaemon();
    ExpectUntouched(connection);
    ExpectUntouched(world_.Establish(a(), b(), listener));
  }
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("configuration is bad, so the former one is used"));
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("/broker.toml:2: limits.backlog: 0 is not from 1 to"));
}

// Nobody waits for an administrator, nor for a file server.
TEST_F(RestartTest, AFileThatHangsIsAsOneThatIsBad) {
  const Connection connection = world_.Establish();
  const HangingFile hanging(broker_->folder() + "/broker.toml");
  broker_->KillDaemon();
  ExpectUntouched(connection);
  ExpectUntouched(world_.Establish());
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("configuration is bad, so the former one is used"));
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("/broker.toml: not read within 5s"));
}

// The groups of the daemon's machine, which are there before the broker.
struct GroupsFile {
  GroupsFile() { Write("passing:x:54321:\n"); }
  void Write(const std::string& groups) const { std::ofstream(folder.path() + "/group") << groups; }
  // A daemon that finds them where it looks.
  std::vector<std::string> Daemon() const {
    const std::string script =
        absl::StrCat("mount --bind '", folder.path(), "/group' /etc/group && exec ", KeptBroker::kDaemon, " \"$@\"");
    return {"unshare", "--mount", "sh", "-c", script, "sh"};
  }

  TemporaryFolder folder;
};

class GroupsTest : protected GroupsFile, public RestartTest {
 protected:
  GroupsTest() : RestartTest("control.administrators_group = \"passing\"\n", Daemon()) {}
};

TEST_F(GroupsTest, AGroupThatHasBeenRemovedCostsNoConnection) {
  const Connection connection = world_.Establish();
  Write("");
  for (int death = 0; death < 2; ++death) {
    broker_->KillDaemon();
    ExpectUntouched(connection);
    ExpectUntouched(world_.Establish());
  }
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("configuration is bad, so the former one is used"));
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("control.administrators_group: there is no group"));
}

// Certificates in files of this folder, which are there before the broker.
struct PortFiles {
  PortFiles() {
    const TestAuthority authority("authority");
    const TestPair pair = authority.Sign({});
    std::ofstream(folder.path() + "/cert.pem") << pair.certificate;
    std::ofstream(folder.path() + "/key.pem") << pair.private_key;
    std::ofstream(folder.path() + "/ca.pem") << authority.certificate();
  }
  std::string Settings() const {
    return absl::StrCat("tcp = { address = \"127.0.0.1:0\", certificate = \"", folder.path(),
                        "/cert.pem\", private_key = \"", folder.path(), "/key.pem\", client_authorities = \"",
                        folder.path(), "/ca.pem\" }\n");
  }

  TemporaryFolder folder;
};

class PortTest : private PortFiles, public RestartTest {
 protected:
  PortTest() : RestartTest(Settings()) {}
  using PortFiles::folder;
};

TEST_F(PortTest, CertificatesThatHaveBecomeBadCostThePortAlone) {
  const Connection connection = world_.Establish();
  std::ofstream(folder.path() + "/key.pem") << "nonsense";
  broker_->KillDaemon();
  ExpectUntouched(connection);
  ExpectUntouched(world_.Establish());
  EXPECT_TRUE(Becomes([&] { return broker_->Log().find("tcp port not served") != std::string::npos; }));
  EXPECT_THAT(broker_->Log(), testing::HasSubstr("tcp.private_key: " + folder.path() + "/key.pem: has no private key"));
}

class AbsenceTest : public RestartTest {
 protected:
  using RestartTest::RestartTest;

  // From a, over the loopback interface; as far as Connect.
  Handshake ConnectTo(const SocketAddress& address) {
    Handshake made;
    made.active = a().NewConnector();
    made.active_qp = a().NewQueuePair();
    made.connect = a().Connect(made.active, made.active_qp, address, {.source = {.ip = address.ip}});
    return made;
  }
  void Complete(Handshake& made) {
    EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess) << made.connect.Wait().hint;
    made.complete = a().CompleteConnect(made.active, made.active_events.callback());
    EXPECT_EQ(made.complete.Status(), NdkStatus::kSuccess) << made.complete.Wait().hint;
  }
  // The broker holds only what the parties of this test have.
  bool HasOnlyOurSessions() {
    const std::vector<std::string> objects = broker_->Objects();
    return objects != std::vector<std::string>{KeptBroker::kNoAnswer} &&
           std::none_of(objects.begin(), objects.end(),
                        [](const std::string& object) { return object.rfind("listener", 0) == 0; });
  }
};

// Far longer than the test waits.
class LongGraceTest : public AbsenceTest {
 protected:
  LongGraceTest() : AbsenceTest("timeouts.session_grace_ms = 600000\n") {}
};

TEST_F(LongGraceTest, AClientThatDiesMeanwhileIsFoundDead) {
  ClientAside client(*broker_);
  Handshake made = ConnectTo(client.address());
  Complete(made);
  client.ExpectConnected();
  broker_->KillDaemonAnd([&] { client.process().Kill(); });
  made.active_events.Wait();
  EXPECT_TRUE(Becomes([this] { return HasOnlyOurSessions(); }));
  EXPECT_EQ(BindOutside(client.address()), 0);
  EXPECT_EQ(made.active_events.count(), 1u);
}

TEST_F(AbsenceTest, APausedClientFindsEverythingWhenItIsBack) {
  ClientAside client(*broker_);
  client.process().Signal(SIGSTOP);
  for (int death = 0; death < 2; ++death) broker_->KillDaemon();
  Handshake made = ConnectTo(client.address());
  world_.ExpectPending(made.connect);
  client.process().Signal(SIGCONT);
  Complete(made);
  client.ExpectConnected();
}

// With a stream, it loses its patience soon.
class ShortPatienceTest : public AbsenceTest {
 protected:
  ShortPatienceTest() : AbsenceTest("control.patience_ms = 500\n") {}

  // Whether there is a session whose description has both.
  bool HasSession(const std::string& one, const std::string& other) {
    const std::vector<std::string> objects = broker_->Objects();
    return std::any_of(objects.begin(), objects.end(), [&](const std::string& object) {
      return object.rfind("session", 0) == 0 && object.find(one) != std::string::npos &&
             object.find(other) != std::string::npos;
    });
  }
};

// First the stream, which has no room for so many events, then the broker, and then it is back.
TEST_F(ShortPatienceTest, APausedClientLosesNoEventWithItsStreamAndTheBroker) {
  // More than the 64 KiB that the broker sends to one that does not read.
  constexpr size_t kEvents = 400;
  const std::string padding(200, 'x');
  ChildProcess client({"tests/survive/counting_listener", broker_->control_socket()});
  const auto address = SocketAddress::Parse(client.ReadLine());
  ASSERT_TRUE(address);
  const auto has_delivered = [&client](size_t events) {
    client.WriteLine("count");
    return client.ReadLine() == std::to_string(events) + " " + std::to_string(events);
  };
  client.Signal(SIGSTOP);
  std::vector<Call> connects;
  for (size_t i = 0; i < kEvents; ++i) {
    connects.push_back(a().Connect(
        a().NewConnector(), a().NewQueuePair(), *address,
        {.source = {.ip = address->ip}, .private_data = std::to_string(i) + std::string(1, '\0') + padding}));
  }
  const std::string all = " connectors: " + std::to_string(kEvents) + " ";
  ASSERT_TRUE(Becomes([&] { return HasSession("SESSION_STATE_AWAY", all); })) << "its stream had room";
  broker_->KillDaemon();
  client.Signal(SIGCONT);
  EXPECT_TRUE(Becomes([&] { return has_delivered(kEvents); }));
  for (const Call& connect : connects) EXPECT_EQ(connect.Status(), NdkStatus::kConnectionAborted);
  const Call another = a().Connect(a().NewConnector(), a().NewQueuePair(), *address,
                                   {.source = {.ip = address->ip}, .private_data = "another"});
  EXPECT_TRUE(Becomes([&] { return has_delivered(kEvents + 1); }));
  client.Kill();
  EXPECT_NE(another.Status(), NdkStatus::kSuccess);
}

// What a client that goes on has for its hand-off is over before a handshake that nobody ends, which is the clock.
class ShortHandoffTest : public AbsenceTest {
 protected:
  ShortHandoffTest() : AbsenceTest("timeouts.handoff_ms = 2000\ntimeouts.establish_ms = 4000\n") {}
};

// Each is stopped between its Accept and the establishment, and one of them until there is another broker.
TEST_F(ShortHandoffTest, APausedClientFetchesItsConnectionWhenItIsBack) {
  ClientAside clients[] = {ClientAside(*broker_), ClientAside(*broker_)};
  std::vector<Handshake> made;
  for (ClientAside& client : clients) {
    made.push_back(ConnectTo(client.address()));
    ASSERT_EQ(made.back().connect.Status(), NdkStatus::kSuccess) << made.back().connect.Wait().hint;
    client.process().Signal(SIGSTOP);
    Complete(made.back());
  }
  const TestListener listener = b().Listening();
  const Handshake clock = world_.Reply(a(), b(), listener);
  ASSERT_EQ(clock.accept.Status(), NdkStatus::kIoTimeout);
  clients[0].process().Signal(SIGCONT);
  clients[0].ExpectConnected();
  broker_->KillDaemon();
  clients[1].process().Signal(SIGCONT);
  clients[1].ExpectConnected();
  for (const Handshake& each : made) EXPECT_EQ(each.active_events.count(), 0u);
}

class ShortGraceTest : public AbsenceTest {
 protected:
  ShortGraceTest() : AbsenceTest("timeouts.session_grace_ms = 1000\n") {}
};

TEST_F(ShortGraceTest, AClientThatDoesNotReturnIsClosed) {
  ClientAside client(*broker_);
  Handshake made = ConnectTo(client.address());
  Complete(made);
  client.ExpectConnected();
  client.process().Signal(SIGSTOP);
  broker_->KillDaemon();
  EXPECT_TRUE(Becomes([this] { return HasOnlyOurSessions(); }));
  EXPECT_EQ(made.active_events.count(), 0u) << "the transport is the client's";
  client.process().Kill();
  made.active_events.Wait();
}

TEST_F(RestartTest, ADamagedStoreCostsTheSessionsAndNoConnection) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  std::promise<NdkStatus> of_a, of_b;
  connection.active->OnSessionEnd([&](NdkStatus status) { of_a.set_value(status); });
  connection.passive->OnSessionEnd([&](NdkStatus status) { of_b.set_value(status); });
  broker_->KillDaemonAnd([&] { std::filesystem::resize_file(broker_->folder() + "/state/records.mdb", 5000); });
  EXPECT_EQ(of_a.get_future().get(), NdkStatus::kConnectionDisconnected);
  EXPECT_EQ(of_b.get_future().get(), NdkStatus::kConnectionDisconnected);
  ExpectUntouched(connection);
  {
    // Whoever opens another session can have the address again.
    World next(On(), broker_);
    TestListener again = next.b().NewListener();
    again.address = listener.address;
    EXPECT_EQ(next.b().Listen(again, again.address).Status(), NdkStatus::kSuccess);
    const Connection another = next.Establish(next.a(), next.b(), again);
    next.ExpectCarries(another);
    ExpectUntouched(connection);
  }
  world_.Disconnect(a(), b(), connection);
}

TEST_F(RestartTest, TwoDeathsInARowAreAsOne) {
  const TestListener listener = b().Listening();
  const Connection connection = world_.Establish(a(), b(), listener);
  for (int death = 0; death < 5; ++death) broker_->KillDaemon();
  ExpectUntouched(connection);
  ExpectUntouched(world_.Establish(a(), b(), listener));
}

}  // namespace
}  // namespace rdmabroker
