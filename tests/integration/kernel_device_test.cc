// SPDX-License-Identifier: Apache-2.0

// What becomes of connections over the kernel's device that RDMA_DEVICE names when a client dies, lies, or the device
// goes. Takes the device away and puts it back, so it needs CAP_NET_ADMIN, and a machine of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/fabric/rdmacm/testing/mpa_peers.h"
#include "broker/fabric/rdmacm/testing/silent_peers.h"
#include "client/blocking.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/testing/side.h"
#include "dataplane/verbs/device/device.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/test_client.h"
#include "tests/integration/held_connections.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kConnectedClient[] = "tests/integration/connected_client";
constexpr size_t kConnections = 10;

class KernelDevice : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
    broker_ = std::make_unique<RunningBroker>();
    ASSERT_TRUE(BrokerHasDevice()) << device_;
  }

  std::string Kind() const { return device_.substr(0, device_.find_first_of("0123456789")); }

  // The line of rdma(8) that names the device, in which every kind of resource has its count; "" where there is none.
  std::string Resources() const {
    std::istringstream lines(Rdma({"resource", "show"}));
    std::string line;
    while (std::getline(lines, line)) {
      if (line.find(" " + device_ + ": ") != std::string::npos) return line;
    }
    return "";
  }
  std::string Rdma(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "rdma");
    return Run(arguments);
  }
  std::string Run(const std::vector<std::string>& command) const {
    const Ending ending = RunToEnd(command, broker_->folder() + "/errors");
    EXPECT_EQ(ending.status, 0) << ending.error;
    std::remove((broker_->folder() + "/errors").c_str());
    return ending.output;
  }

  std::unique_ptr<HeldConnections> NewClient() const {
    return std::make_unique<HeldConnections>(broker_->control_socket(), device_);
  }
  bool BrokerHasDevice() const { return Has(*broker_, device_); }
  static bool Has(const RunningBroker& broker, const std::string& name) {
    client::SessionOptions options;
    options.control_socket = broker.control_socket();
    const auto opened = client::Session::Open(std::move(options));
    const auto listed = client::BlockingListAdapters(*opened.session);
    return std::any_of(listed.object.begin(), listed.object.end(),
                       [&name](const auto& device) { return device.name == name && device.usable; });
  }

  // After its removal: it can be used as before.
  void BringBack() {
    Rdma({"link", "add", device_, "type", Kind(), "netdev", "eth0"});
    EXPECT_TRUE(Becomes([this] { return BrokerHasDevice(); }));
    const auto again = NewClient();
    const SocketAddress address = again->Listen();
    std::thread accepting([&] { again->Accept(1); });
    NewClient()->Connect(address, 1);
    accepting.join();
  }

  std::string device_;
  std::unique_ptr<RunningBroker> broker_;
};

class KernelDeviceClientDeath : public KernelDevice, public testing::WithParamInterface<bool> {};

TEST_P(KernelDeviceClientDeath, LeavesNothingInTheKernelAndIsKnownToThePeers) {
  const bool active = GetParam();
  const std::string before = Resources();
  ASSERT_NE(before, "");
  {
    const auto peer = NewClient();
    std::vector<std::string> command = {kConnectedClient, broker_->control_socket(), device_,
                                        std::to_string(kConnections)};
    if (active) command.push_back(peer->Listen().ToString());
    ChildProcess client(command);
    client.ReadLine();
    SocketAddress address;
    if (active) {
      peer->Accept(kConnections);
    } else {
      address = SocketAddress::Parse(client.ReadLine()).value_or(SocketAddress());
      peer->Connect(address, kConnections);
    }
    ASSERT_EQ(client.ReadLine(), "there");
    client.Kill();
    EXPECT_THAT(peer->Ends(),
                AllOf(SizeIs(kConnections), Each(AnyOf(NdkStatus::kSuccess, NdkStatus::kConnectionAborted))));
    if (!active) {
      const auto free = [&] { return client::BlockingListener::Listen(peer->client().adapter, address).outcome.ok(); };
      EXPECT_TRUE(Becomes(free)) << address.ToString() << " is not free";
    }
  }
  EXPECT_TRUE(Becomes([&] { return Resources() == before; })) << "before: " << before << "\nafter: " << Resources();
  EXPECT_THAT(broker_->Objects(), SizeIs(0));
}

INSTANTIATE_TEST_SUITE_P(BySigkill, KernelDeviceClientDeath, testing::Bool(),
                         [](const auto& active) { return active.param ? "ThatConnected" : "ThatAccepted"; });

TEST_F(KernelDevice, GivesNobodyTheQueuePairOfAnotherProcess) {
  ChildProcess owner({kConnectedClient, broker_->control_socket(), device_, "0"});
  const auto theirs = static_cast<uint32_t>(std::stoul(owner.ReadLine()));
  ASSERT_NE(owner.ReadLine(), "");
  ASSERT_EQ(owner.ReadLine(), "there");

  const auto peer = NewClient();
  TestClient forger(NewChannel("unix:" + broker_->control_socket()));
  ASSERT_EQ(forger.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = forger.OpenAdapter(device_);
  const uint64_t active = forger.CreateConnector(adapter);
  const v1::Outcome connected =
      forger.WaitForOutcome(forger.StartConnect(active, theirs, {peer->ip(), 0}, peer->Listen()));
  EXPECT_EQ(NdkStatusOf(connected), NdkStatus::kAccessDenied);
  EXPECT_THAT(connected.hint(), HasSubstr("is not the session's process's"));

  const SocketAddress address = forger.Listen(adapter, {peer->ip(), 0}).second;
  NdkStatus outcome = NdkStatus::kPending;
  std::thread connecting([&] { outcome = peer->client().Connect(peer->ip(), address).status; });
  const uint64_t request = forger.next_request_id();
  v1::Outcome accepted = forger.Accept(forger.WaitForConnect().connector_id(), theirs);
  if (accepted.status() == v1::STATUS_PENDING) accepted = forger.WaitForOutcome(request);
  EXPECT_EQ(NdkStatusOf(accepted), NdkStatus::kAccessDenied);
  connecting.join();
  EXPECT_THAT(outcome, AnyOf(NdkStatus::kConnectionRefused, NdkStatus::kConnectionAborted));
}

TEST_F(KernelDevice, ASilentPeerIsGivenUpWhenTheBrokersDeadlineIsOverAndTheKernelsIsNot) {
  broker_ = std::make_unique<RunningBroker>("timeouts.connect_ms = 2000");
  ASSERT_TRUE(BrokerHasDevice());
  const std::string before = Resources();
  {
    const auto active = NewClient();
    const auto peer = NewClient();
    const client::Outcome outcome = active->client().Connect(active->ip(), SilentPeer(IpFamily::kIpv4));
    EXPECT_EQ(outcome.status, NdkStatus::kIoTimeout);
    EXPECT_EQ(outcome.provider_error, 0U) << "the kernel has nothing to say yet";
    EXPECT_THAT(outcome.hint, HasSubstr("no answer within 2s"));
    EXPECT_TRUE(outcome.retryable);
    EXPECT_EQ(outcome.retry_same_qp, Kind() != "siw") << "siw has the queue pair until TCP gives the peer up";
    const SocketAddress address = peer->Listen();
    std::thread accepting([&] { peer->Accept(1); });
    EXPECT_TRUE(active->client().Connect(active->ip(), address).ok());
    accepting.join();
  }
  EXPECT_TRUE(Becomes([&] { return Resources() == before; })) << "before: " << before << "\nafter: " << Resources();
  EXPECT_THAT(broker_->Objects(), SizeIs(0));
}

// The kernel sends a network that is not the first user namespace's no uevent before the device has been closed by all
// (lib/kobject_uevent.c), who close it when they are told that it goes.
TEST_F(KernelDevice, ItsRemovalIsNoticedInAContainerWhileSomebodyHasItOpenAndNobodyAnAddressOfIt) {
  ChildProcess container({"unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo there && cat"});
  ASSERT_EQ(container.ReadLine(), "there");
  const std::string process = std::to_string(container.pid());
  const auto run_inside = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"nsenter", "--net", "--target", process});
    Run(command);
  };
  Run({"ip", "link", "add", "outside", "type", "veth", "peer", "name", "inside", "netns", process});
  Run({"ip", "link", "set", "outside", "up"});
  // Without the IPv6 address that comes by itself, seconds later, and has the broker look for devices.
  run_inside({"ip", "link", "set", "inside", "addrgenmode", "none"});
  run_inside({"ip", "address", "add", "10.81.0.1/24", "dev", "inside"});
  run_inside({"ip", "link", "set", "inside", "up"});
  run_inside({"rdma", "link", "add", "contained", "type", Kind(), "netdev", "inside"});
  {
    const RunningBroker broker(
        "", {"nsenter", "--user", "--net", "--preserve-credentials", "--target", process, RunningBroker::kDaemon});
    ASSERT_TRUE(Has(broker, "contained"));
    verbs::DeviceContext open;
    ASSERT_EQ(verbs::OpenDevice("contained", &open), NdkStatus::kSuccess);
    ChildProcess removal({"rdma", "link", "del", "contained"});
    EXPECT_TRUE(Becomes([&] { return !Has(broker, "contained"); }));
    open = nullptr;
    EXPECT_EQ(removal.End(), 0);
  }
  Run({"ip", "link", "del", "outside"});
}

TEST_F(KernelDevice, ItsRemovalEndsConnectionsAndReturnsOnceTheirOwnersHaveClosedThem) {
  auto passive = NewClient();
  auto active = NewClient();
  const SocketAddress address = passive->Listen();
  std::thread accepting([&] { passive->Accept(kConnections); });
  active->Connect(address, kConnections);
  accepting.join();
  ASSERT_FALSE(HasFailure());

  ChildProcess removal({"rdma", "link", "del", device_});
  for (HeldConnections* const client : {passive.get(), active.get()}) {
    EXPECT_THAT(client->Ends(), AllOf(SizeIs(kConnections), Each(NdkStatus::kDeviceRemoved)));
  }
  EXPECT_FALSE(BrokerHasDevice());
  EXPECT_EQ(active->client().Connect(active->ip(), address).status, NdkStatus::kDeviceRemoved);
  passive = nullptr;
  active = nullptr;
  EXPECT_EQ(removal.End(), 0);

  BringBack();
}

TEST_F(KernelDevice, ARefusedConnectSaysWhetherThereIsAListener) {
  // An iWARP device has spent the queue pair of a refused connect.
  const auto passive = NewClient(), active = NewClient(), another = NewClient();
  const std::shared_ptr<client::Adapter>& adapter = passive->client().adapter;
  const auto reserved = client::BlockingReservePort(adapter, {passive->ip(), 0});
  ASSERT_TRUE(reserved.outcome.ok()) << reserved.outcome.hint;
  const client::Outcome nobody = active->client().Connect(active->ip(), reserved.object->address());
  EXPECT_EQ(nobody.status, NdkStatus::kConnectionRefused);
  EXPECT_THAT(nobody.hint, HasSubstr("nobody listens there"));
  const auto listening = client::BlockingListener::Listen(adapter, {passive->ip(), 0});
  ASSERT_TRUE(listening.outcome.ok()) << listening.outcome.hint;
  listening.object->listener()->ControlConnectEvents(true);
  const client::Outcome paused = another->client().Connect(another->ip(), listening.object->address());
  EXPECT_EQ(paused.status, NdkStatus::kConnectionRefused);
  EXPECT_THAT(paused.hint, HasSubstr("paused"));
}

// The kernel waits with the removal until all have closed the device.
TEST_F(KernelDevice, ItsRemovalDoesNotWaitForServersThatWaitForPeers) {
  client::SessionOptions options;
  options.control_socket = broker_->control_socket();
  const auto opened = client::Session::Open(std::move(options));
  ASSERT_TRUE(opened.outcome.ok()) << opened.outcome.hint;
  const auto adapter = client::BlockingOpenAdapter(*opened.session, device_);
  ASSERT_TRUE(adapter.outcome.ok()) << adapter.outcome.hint;
  const IpAddress ip = NewClient()->ip();
  auto listening = client::BlockingListener::Listen(adapter.object, {ip, 0});
  ASSERT_TRUE(listening.outcome.ok()) << listening.outcome.hint;
  auto next = std::async(std::launch::async, [&] { return listening.object->Next().outcome; });
  // Has a completion queue and more on the device while it waits.
  ChildProcess example({"client/examples/request_reply", "server", "--socket", broker_->control_socket(), "--device",
                        device_, "--address", SocketAddress{ip, 0}.ToString()},
                       ChildProcess::Errors::kToItsOutput);
  ASSERT_THAT(example.ReadLine(), HasSubstr("listening on"));

  ChildProcess removal({"rdma", "link", "del", device_});
  EXPECT_EQ(removal.End(), 0);
  const client::Outcome outcome = next.get();
  EXPECT_EQ(outcome.status, NdkStatus::kDeviceRemoved);
  EXPECT_FALSE(outcome.hint.empty());
  EXPECT_THAT(example.ReadAll(), HasSubstr("STATUS_DEVICE_REMOVED"));
  EXPECT_EQ(example.End(), 1);
  listening.object = nullptr;
  BringBack();
  EXPECT_EQ(client::BlockingClose(adapter.object), NdkStatus::kSuccess);
}

// A status that a callback brings, once.
class Told {
 public:
  client::OutcomeCompletion outcome() {
    return [this](const client::Outcome& outcome) { status_.set_value(outcome.status); };
  }
  client::DisconnectEventCallback disconnect() {
    return [this](const client::DisconnectEvent& event) { status_.set_value(event.status); };
  }
  // kPending where it does not come.
  NdkStatus Await() {
    const bool came = told_.wait_for(absl::ToChronoMilliseconds(kTestPatience)) == std::future_status::ready;
    return came ? told_.get() : NdkStatus::kPending;
  }

 private:
  std::promise<NdkStatus> status_;
  std::future<NdkStatus> told_ = status_.get_future();
};

// A connector with a queue pair of its own.
class Attempt {
 public:
  Attempt(HeldConnections& client, std::shared_ptr<client::Connector> made)
      : connector(std::move(made)), pair(client.client().side.NewQueuePair({}, nullptr)) {}
  explicit Attempt(HeldConnections& client) : Attempt(client, New(*client.client().adapter)) {}
  ~Attempt() {
    client::BlockingClose(connector);
    CloseAndWait(pair);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void Connect(const IpAddress& from, const SocketAddress& to) {
    EXPECT_EQ(connector->Connect(pair, {.source = {.ip = from}, .destination = to, .limits = {}, .private_data = {}},
                                 connected.outcome()),
              NdkStatus::kPending);
  }

  const std::shared_ptr<client::Connector> connector;
  QueuePair* const pair;
  Told connected, established, ended;

 private:
  static std::shared_ptr<client::Connector> New(client::Adapter& adapter) {
    std::promise<std::shared_ptr<client::Connector>> made;
    EXPECT_EQ(adapter.CreateConnector([&](const client::Outcome&, auto object) { made.set_value(object); }),
              NdkStatus::kPending);
    return made.get_future().get();
  }
};

// What the kernel counts are the requests that nobody has read.
TEST_F(KernelDevice, MoreConnectRequestsThanTheKernelsBacklogWaitForTheirDecisions) {
  constexpr int kBacklog = 2, kRequests = 10;
  constexpr char kLimit[] = "/proc/sys/net/rdma_ucm/max_backlog";
  int usual = 0;
  ASSERT_TRUE(std::ifstream(kLimit) >> usual);
  ASSERT_TRUE(std::ofstream(kLimit) << kBacklog << std::flush);
  {
    const auto passive = NewClient(), active = NewClient();
    const auto [listening, listener] = client::BlockingListener::Listen(passive->client().adapter, {passive->ip(), 0});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::list<Attempt> connecting, undecided;
    for (int i = 0; i < kRequests; ++i) {
      connecting.emplace_back(*active).Connect(active->ip(), listener->address());
      const auto arrived = listener->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
      ASSERT_NE(arrived, nullptr) << i;
      undecided.emplace_back(*passive, arrived);
    }
  }
  EXPECT_TRUE(std::ofstream(kLimit) << usual << std::flush);
}

TEST_F(KernelDevice, AWildcardListenerIsReachedAtEachAddressOfItsDevice) {
  const auto passive = NewClient(), active = NewClient();
  const auto [listening, listener] =
      client::BlockingListener::Listen(passive->client().adapter, {IpAddress::Any(IpFamily::kIpv4), 0});
  ASSERT_TRUE(listening.ok()) << listening.hint;
  int reached = 0;
  for (const client::Device& known : client::BlockingListAdapters(*active->client().session).object) {
    if (known.name != device_) continue;
    for (const IpAddress& ip : known.addresses) {
      if (ip.family != IpFamily::kIpv4) continue;
      const SocketAddress address = {ip, listener->address().port};
      Attempt connecting(*active);
      connecting.Connect(active->ip(), address);
      const auto arrived = listener->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
      ASSERT_NE(arrived, nullptr) << address.ToString();
      const Attempt undecided(*passive, arrived);
      KernelAddress local;
      EXPECT_EQ(arrived->GetLocalAddress(local.get(), &local.length), NdkStatus::kSuccess);
      EXPECT_EQ(FromKernel(local), address);
      ++reached;
    }
  }
  EXPECT_GE(reached, 2);
}

// Soft iWARP's kernel does not survive the end of such a queue pair before the peer's first frame has come
// (cm_close_handler in drivers/infiniband/core/iwcm.c).
TEST_F(KernelDevice, AQueuePairMayBeClosedWhileItsAcceptWaitsForThePeer) {
  const bool iwarp = Kind() == "siw";
  const auto passive = NewClient(), active = NewClient();
  auto [listening, listener] = client::BlockingListener::Listen(passive->client().adapter, {passive->ip(), 0});
  ASSERT_TRUE(listening.ok()) << listening.hint;
  Attempt connecting(*active);
  MpaPeers peers;
  if (iwarp) {
    ASSERT_NO_FATAL_FAILURE(peers.RequestReadyToReceive(listener->address()));
  } else {
    connecting.Connect(active->ip(), listener->address());
  }
  const auto connector = listener->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
  ASSERT_NE(connector, nullptr);
  QueuePair* const pair = passive->client().side.NewQueuePair({}, nullptr);
  Told established;
  ASSERT_EQ(connector->Accept(pair, {}, {}, established.outcome()), NdkStatus::kPending);
  ASSERT_NO_FATAL_FAILURE(peers.AwaitReplies());
  if (!iwarp) {
    ASSERT_EQ(connecting.connected.Await(), NdkStatus::kSuccess);
  }
  std::promise<void> closed;
  ASSERT_EQ(pair->Close([&] { closed.set_value(); }), NdkStatus::kPending) << "its connector has it still";
  ASSERT_NO_FATAL_FAILURE(peers.SendReadyToReceive());
  if (!iwarp) connecting.connector->CompleteConnect({}, connecting.established.outcome());
  EXPECT_NE(established.Await(), NdkStatus::kPending);
  client::BlockingClose(connector);
  closed.get_future().wait();
  const SocketAddress address = passive->Listen();
  std::thread accepting([&] { passive->Accept(1); });
  active->Connect(address, 1);
  accepting.join();
}

// Keeps RDMA writes under way from one client's queue pair to the other's until its end.
class Writes {
 public:
  Writes(DataSide& from, QueuePair* pair, DataSide& to)
      : cq_(from.cq), source_(from.domain, kLength, kAllAccess), target_(to.domain, kLength, kAllAccess) {
    thread_ = std::thread([this, pair] {
      while (!stopped_) {
        if (posted_ - done_ < kDepth &&
            pair->Write(nullptr, std::array{source_.sge()}, target_.remote(), {}) == NdkStatus::kSuccess) {
          ++posted_;
        }
        Take();
      }
    });
  }
  ~Writes() { Stop(); }
  Writes(const Writes&) = delete;
  Writes& operator=(const Writes&) = delete;

  bool under_way() const { return done_ > 0; }
  void Stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // After Stop and the connection's end: how the writes ended, each once.
  std::set<NdkStatus> Ends() {
    EXPECT_TRUE(Becomes([this] { return Take(), done_ == posted_; })) << done_ << " of " << posted_;
    Take();
    EXPECT_EQ(done_, posted_);
    return ends_;
  }

 private:
  static constexpr size_t kLength = 65536, kDepth = 8;

  void Take() {
    std::array<Result, kDepth> results;
    const size_t count = cq_->GetResults(results);
    for (size_t i = 0; i < count; ++i) ends_.insert(results[i].status);
    done_ += count;
  }

  CompletionQueue* const cq_;
  Buffer source_, target_;
  size_t posted_ = 0;
  std::atomic<size_t> done_ = 0;
  std::set<NdkStatus> ends_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

TEST_F(KernelDevice, ItsRemovalEndsHandshakesAtEveryStepAndATransfer) {
  auto passive = NewClient();
  auto active = NewClient();
  std::unique_ptr<ChildProcess> removal;
  {
    auto [listening, listener] = client::BlockingListener::Listen(passive->client().adapter, {passive->ip(), 0});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    const auto next = [&, &listener = listener] {
      return listener->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
    };
    // As far as the first message, the request, the reply; and established.
    Attempt silent(*active), undecided(*active), replied(*active), established(*active);
    silent.Connect(active->ip(), SilentPeer(IpFamily::kIpv4));
    undecided.Connect(active->ip(), listener->address());
    Attempt deciding(*passive, next());
    replied.Connect(active->ip(), listener->address());
    Attempt accepting(*passive, next());
    ASSERT_EQ(
        accepting.connector->Accept(accepting.pair, {}, accepting.ended.disconnect(), accepting.established.outcome()),
        NdkStatus::kPending);
    ASSERT_EQ(replied.connected.Await(), NdkStatus::kSuccess);
    established.Connect(active->ip(), listener->address());
    Attempt accepted(*passive, next());
    accepted.connector->Accept(accepted.pair, {}, accepted.ended.disconnect(), accepted.established.outcome());
    ASSERT_EQ(established.connected.Await(), NdkStatus::kSuccess);
    established.connector->CompleteConnect(established.ended.disconnect(), established.established.outcome());
    ASSERT_EQ(established.established.Await(), NdkStatus::kSuccess);
    ASSERT_EQ(accepted.established.Await(), NdkStatus::kSuccess);
    Writes writes(active->client().side, established.pair, passive->client().side);
    ASSERT_TRUE(Becomes([&] { return writes.under_way(); }));

    const bool three_way = replied.connector->connection_data()->three_way;
    removal = std::make_unique<ChildProcess>(std::vector<std::string>{"rdma", "link", "del", device_});
    // A transfer may find its device gone before the broker hears of it, and breaks the connection.
    for (Attempt* const attempt : {&established, &accepted}) {
      EXPECT_THAT(attempt->ended.Await(), AnyOf(NdkStatus::kDeviceRemoved, NdkStatus::kConnectionAborted));
    }
    for (Attempt* const attempt : {&silent, &undecided}) {
      EXPECT_EQ(attempt->connected.Await(), NdkStatus::kDeviceRemoved);
    }
    // Without a third message the accepting side is established by then.
    EXPECT_EQ(accepting.established.Await(), three_way ? NdkStatus::kDeviceRemoved : NdkStatus::kSuccess);
    if (!three_way) {
      EXPECT_EQ(accepting.ended.Await(), NdkStatus::kDeviceRemoved);
    }
    const NdkStatus complete = replied.connector->CompleteConnect({}, replied.established.outcome());
    EXPECT_EQ(complete == NdkStatus::kPending ? replied.established.Await() : complete, NdkStatus::kDeviceRemoved);
    const NdkStatus accept = deciding.connector->Accept(deciding.pair, {}, {}, deciding.established.outcome());
    EXPECT_EQ(accept == NdkStatus::kPending ? deciding.established.Await() : accept, NdkStatus::kDeviceRemoved);

    writes.Stop();
    client::BlockingClose(established.connector);
    EXPECT_THAT(writes.Ends(), Each(AnyOf(NdkStatus::kSuccess, NdkStatus::kInternalError, NdkStatus::kCancelled)));
  }
  passive = nullptr;
  active = nullptr;
  EXPECT_EQ(removal->End(), 0);
  BringBack();
}

}  // namespace
}  // namespace rdmabroker
