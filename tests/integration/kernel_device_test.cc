// SPDX-License-Identifier: Apache-2.0

// What becomes of connections over the kernel's device that RDMA_DEVICE names when a client dies, lies, or the device
// goes. Takes the device away and puts it back, so it needs CAP_NET_ADMIN, and a machine of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"
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
  const char* const listed = std::getenv("RDMA_SILENT_PEERS_4");
  ASSERT_NE(listed, nullptr) << "RDMA_SILENT_PEERS_4 names no address";
  const std::string silent(listed, std::strcspn(listed, " "));
  broker_ = std::make_unique<RunningBroker>("timeouts.connect_ms = 2000");
  ASSERT_TRUE(BrokerHasDevice());
  const std::string before = Resources();
  {
    const auto active = NewClient();
    const auto peer = NewClient();
    const client::Outcome outcome = active->client().Connect(active->ip(), {*IpAddress::Parse(silent), 7000});
    EXPECT_EQ(outcome.status, NdkStatus::kIoTimeout);
    EXPECT_EQ(outcome.provider_error, 0U) << "the kernel has nothing to say yet";
    EXPECT_THAT(outcome.hint, HasSubstr("no answer within 2s"));
    EXPECT_TRUE(outcome.retry_same_qp);
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
    const RunningBroker broker("", {"nsenter", "--user", "--net", "--preserve-credentials", "--target", process});
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

  Rdma({"link", "add", device_, "type", Kind(), "netdev", "eth0"});
  EXPECT_TRUE(Becomes([this] { return BrokerHasDevice(); }));
  const auto again = NewClient();
  const SocketAddress new_address = again->Listen();
  std::thread accepting_again([&] { again->Accept(1); });
  NewClient()->Connect(new_address, 1);
  accepting_again.join();
}

}  // namespace
}  // namespace rdmabroker
