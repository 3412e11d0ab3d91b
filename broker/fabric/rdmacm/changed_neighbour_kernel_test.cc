// SPDX-License-Identifier: Apache-2.0

// What becomes of connections when the kernel learns another MAC address of a peer. Uses the device that RDMA_DEVICE
// names, on eth0 with 10.77.0.1, and changes neighbour entries there, so it needs CAP_NET_ADMIN and a machine of its
// own: tests/vm/conformance makes such a machine.
//
// The peer is this machine. The kernel allows a neighbour entry for an own address, and uses it for nothing else.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"
#include "dataplane/verbs/device/connection_ids.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(2);
constexpr EndpointId kFrom(11), kListener(12);
constexpr ConnectionId kOwn(21), kRefused(22);
constexpr SessionId kSession(31);
constexpr ReadLimits kLimits = {2, 1};

// As tests/vm/conformance has it: never answers, and its neighbour entry says 02:00:00:00:00:fa.
constexpr char kSilent[] = "10.77.0.250";

// What is still to come comes within this. Too short, a test might pass that should fail.
constexpr absl::Duration kQuiet = absl::Milliseconds(500);

class ChangedNeighbour : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    name_ = device;
    ASSERT_TRUE(queue_pairs_.Open());
    Begin({});
  }
  void TearDown() override {
    if (IsSkipped()) return;
    fabric_ = nullptr;
    Neighbour("replace", kSilent, "02:00:00:00:00:fa");
    ChildProcess({"ip", "neighbour", "del", ip_.ToString(), "dev", "eth0"}).End();
  }

  static void Neighbour(const std::string& action, const std::string& ip, const std::string& mac) {
    EXPECT_EQ(ChildProcess({"ip", "neighbour", action, ip, "lladdr", mac, "dev", "eth0"}).End(), 0);
  }
  // The peer's MAC address becomes one that it has not had.
  void ChangePeer() { Neighbour("replace", ip_.ToString(), "02:00:00:00:01:" + std::to_string(10 + ++changes_)); }

  void Begin(std::vector<RdmaCmPast::Device> devices, bool unrecorded = false) {
    keep_ = std::make_unique<DescriptorKeep>(supervisor_);
    auto opened = RdmaCmFabric::Open(kDevice, {}, {*keep_, records_, std::move(devices), unrecorded}, loop_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
    keep_->Committed();
  }
  void Die() {
    fabric_ = nullptr;
    reports_.clear();
    supervisor_.Restart();
  }
  void Perform(const FabricRequest& request) {
    fabric_->Perform(request);
    keep_->Committed();
  }

  template <typename Report>
  std::optional<Report> Find() const {
    for (const FabricReport& report : reports_) {
      if (const auto* typed = std::get_if<Report>(&report)) return *typed;
    }
    return std::nullopt;
  }
  // The first report of its kind since the last that was awaited; an empty one fails the test.
  template <typename Report>
  Report Await(const char* what) {
    const absl::Time end = Loop::Now() + kTestPatience;
    while (!Find<Report>() && Loop::Now() < end) loop_.RunTurn(end);
    const auto report = Find<Report>();
    EXPECT_TRUE(report) << "no report: " << what;
    std::erase_if(reports_, [](const FabricReport& each) { return std::holds_alternative<Report>(each); });
    return report.value_or(Report());
  }
  // Whatever the kernel has told of by now has been handled: it tells of this attempt's route in the same order.
  void AwaitEarlierEvents() {
    Perform(Connect(kRefused, outside_.FreeAddress()));
    EXPECT_EQ(Await<FabricConnectFailed>("refusal").connection, kRefused);
    Perform(FabricRelease{kDevice, kRefused});
    EXPECT_EQ(Await<FabricReleased>("refused attempt's release").connection, kRefused);
  }
  void Settle() {
    while (loop_.RunTurn(Loop::Now() + kQuiet)) continue;
  }

  FabricConnect Connect(ConnectionId id, const SocketAddress& to) {
    return {.device = kDevice,
            .connection = id,
            .endpoint = kFrom,
            .session = kSession,
            .qp = queue_pairs_.Make(),
            .local = from_,
            .peer = to,
            .limits = kLimits,
            .private_data = {},
            .process = ::getpid()};
  }
  void Bind() {
    from_ = outside_.FreeAddress();
    Perform(FabricBind{kDevice, kFrom, EndpointUse::kDedicated, {ip_}, from_.port});
    Await<FabricBound>("address to connect from");
    listener_ = outside_.FreeAddress();
    Perform(FabricBind{kDevice, kListener, EndpointUse::kListener, {ip_}, listener_.port});
    Await<FabricBound>("listener");
  }
  // kOwn, as far as the reply of the accepting side.
  void Reply() {
    Perform(Connect(kOwn, listener_));
    incoming_ = Await<FabricConnectRequested>("connect request").connection;
    Perform(FabricAccept{kDevice, incoming_, kSession, queue_pairs_.Make(), kLimits, {}, ::getpid()});
    EXPECT_EQ(Await<FabricReplied>("reply").connection, kOwn);
  }
  void Complete() {
    Perform(FabricComplete{kDevice, kOwn, kLimits});
    const auto both = [this] {
      return std::ranges::count_if(reports_, [](const FabricReport& report) {
               return std::holds_alternative<FabricEstablished>(report);
             }) == 2;
    };
    const absl::Time end = Loop::Now() + kTestPatience;
    while (!both() && Loop::Now() < end) loop_.RunTurn(end);
    EXPECT_TRUE(both()) << "established at one side only";
  }
  void ExpectNoEnd() {
    EXPECT_FALSE(Find<FabricDisconnected>());
    EXPECT_FALSE(Find<FabricFailed>());
    EXPECT_FALSE(Find<FabricConnectFailed>());
  }
  void ExpectDisconnects() {
    ExpectNoEnd();
    Perform(FabricDisconnect{kDevice, kOwn});
    EXPECT_EQ(Await<FabricDisconnected>("disconnect").status, NdkStatus::kSuccess);
  }

  const IpAddress ip_ = *IpAddress::Parse("10.77.0.1");
  std::string name_;
  int changes_ = 0;
  CmProcess outside_{ip_};
  QueuePairs queue_pairs_;
  FakeSupervisor supervisor_;
  FabricRecords records_;
  SocketAddress from_, listener_;
  ConnectionId incoming_;
  Loop loop_;
  std::unique_ptr<DescriptorKeep> keep_;
  std::vector<FabricReport> reports_;
  std::unique_ptr<RdmaCmFabric> fabric_;
};

TEST_F(ChangedNeighbour, EndsNeitherAnAttemptThatHasItsReplyNorAConnection) {
  Bind();
  Reply();
  ChangePeer();
  AwaitEarlierEvents();
  ExpectNoEnd();
  Complete();
  ChangePeer();
  AwaitEarlierEvents();
  ExpectDisconnects();
}

// The kernel goes on sending to the old address.
TEST_F(ChangedNeighbour, EndsAnAttemptOverRoceWhosePeerHasNotAnswered) {
  Bind();
  Perform(Connect(kOwn, {*IpAddress::Parse(kSilent), 7000}));
  AwaitEarlierEvents();
  ASSERT_FALSE(Find<FabricConnectFailed>()) << "too early";
  Neighbour("replace", kSilent, "02:00:00:00:00:fb");
  if (queue_pairs_.iwarp()) {
    // TCP takes the new one.
    AwaitEarlierEvents();
    return ExpectNoEnd();
  }
  const auto failed = Await<FabricConnectFailed>("failure");
  EXPECT_EQ(failed.connection, kOwn);
  EXPECT_EQ(failed.status, NdkStatus::kIoTimeout);
  EXPECT_NE(failed.explanation, "");
  EXPECT_TRUE(failed.qp_reusable);
}

TEST_F(ChangedNeighbour, EndsNoConnectionWhereItChangesWhileNoProcessIsThere) {
  Bind();
  Reply();
  Complete();
  Die();
  ChangePeer();
  Begin({{kDevice, name_, false}});
  Perform(FabricAdoptEndpoint{kDevice, kFrom, EndpointUse::kDedicated, {ip_}, from_.port});
  Perform(FabricAdoptEndpoint{kDevice, kListener, EndpointUse::kListener, {ip_}, listener_.port});
  Perform(FabricAdoptConnection{kDevice, kOwn, kFrom, AdoptedStage::kEstablished, from_, listener_});
  Perform(FabricAdoptConnection{kDevice, incoming_, kListener, AdoptedStage::kEstablished, listener_, from_});
  Perform(FabricAdopted{kDevice});
  AwaitEarlierEvents();
  ExpectDisconnects();
}

TEST_F(ChangedNeighbour, EndsNoConnectionWithoutARecord) {
  Bind();
  Reply();
  Complete();
  Die();
  const auto shown = [this] { return verbs::FindConnectionIds(queue_pairs_.device_index())->size(); };
  const size_t before = shown();
  ASSERT_GE(before, 2u);
  records_ = {};
  Begin({}, true);
  Settle();
  ChangePeer();
  Settle();
  EXPECT_EQ(shown(), before);
}

}  // namespace
}  // namespace rdmabroker
