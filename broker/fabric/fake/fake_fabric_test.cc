// SPDX-License-Identifier: Apache-2.0

// What the fake can do beyond what every fabric does: tests/conformance has that.

#include "broker/fabric/fake/fake_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rdmabroker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DeviceId kDevice(1);
constexpr EndpointId kListening(1);
constexpr EndpointId kDialing(2);
constexpr ConnectionId kOutgoing(1);

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

// A host with one device, and what its fabric has reported.
struct Host {
  Host(FakeNetwork& network, const char* ip, FakeDevice fake = {}) {
    fake.device = MakeFakeDevice(kDevice, "fake0", ++namespaces, {Ip(ip)});
    Start(network, std::move(fake));
  }
  void Start(FakeNetwork& network, FakeDevice fake) {
    address = fake.device.addresses.front();
    fabric = std::make_unique<FakeFabric>(network, std::vector<FakeDevice>{std::move(fake)});
    fabric->Start([this](FabricReport report) { reports.push_back(std::move(report)); });
    reports.clear();
  }
  template <typename Report>
  std::vector<Report> All() const {
    std::vector<Report> some;
    for (const FabricReport& report : reports) {
      if (const auto* typed = std::get_if<Report>(&report)) some.push_back(*typed);
    }
    return some;
  }
  void Bind(EndpointId endpoint, EndpointUse use, uint16_t port) {
    fabric->Perform(FabricBind{kDevice, endpoint, use, {address}, port});
  }

  static inline uint64_t namespaces = 0;
  IpAddress address;
  std::unique_ptr<FakeFabric> fabric;
  std::vector<FabricReport> reports;
};

class FakeFabricTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.Bind(kListening, EndpointUse::kListener, 4420);
    client_.Bind(kDialing, EndpointUse::kDedicated, 50000);
    network_.DeliverAll();
  }
  void Connect() {
    client_.fabric->Perform(FabricConnect{.device = kDevice,
                                          .connection = kOutgoing,
                                          .endpoint = kDialing,
                                          .qp = {7},
                                          .local = {client_.address, 50000},
                                          .peer = {server_.address, 4420}});
  }
  ConnectionId Incoming() { return server_.All<FabricConnectRequested>().at(0).connection; }
  void Accept() { server_.fabric->Perform(FabricAccept{.device = kDevice, .connection = Incoming(), .qp = {9}}); }
  void Establish() {
    Connect();
    network_.DeliverAll();
    Accept();
    network_.DeliverAll();
    client_.fabric->Perform(FabricComplete{kDevice, kOutgoing, {}});
    network_.DeliverAll();
  }

  std::deque<std::function<void()>> loop_;  // Where a pump posts; fabrics that end post, too.
  FakeNetwork network_;
  Host server_{network_, "192.0.2.1"};
  Host client_{network_, "192.0.2.2"};
};

TEST_F(FakeFabricTest, NothingIsReportedBeforeItIsDelivered) {
  Connect();
  EXPECT_THAT(server_.All<FabricConnectRequested>(), IsEmpty());
  ASSERT_EQ(network_.deliverable(), 1u);
  EXPECT_TRUE(network_.IsMessage(0));
  EXPECT_THAT(network_.Describe(0), HasSubstr("request of wire 1 from host 2 to host 1"));
  network_.DeliverNext();
  EXPECT_FALSE(network_.IsMessage(0));
  network_.DeliverNext();
  EXPECT_EQ(server_.All<FabricConnectRequested>().size(), 1u);
}

TEST_F(FakeFabricTest, TheOwnerChoosesTheOrderAmongObjects) {
  client_.Bind(EndpointId(3), EndpointUse::kDedicated, 50001);
  client_.Bind(EndpointId(4), EndpointUse::kDedicated, 50002);
  client_.reports.clear();
  network_.Deliver(1);
  network_.Deliver(0);
  EXPECT_THAT(client_.All<FabricBound>(), ElementsAre(FabricBound{EndpointId(4)}, FabricBound{EndpointId(3)}));
}

TEST_F(FakeFabricTest, ALostRequestLeavesTheInitiatorWithoutAnAnswer) {
  Connect();
  network_.Drop(0);
  EXPECT_EQ(network_.DeliverAll(), 0u);
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_EQ(client_.fabric->connections(), 0u);
}

TEST_F(FakeFabricTest, ADoubledRequestIsReportedOnce) {
  Connect();
  network_.Duplicate(0);
  network_.DeliverAll();
  EXPECT_EQ(server_.All<FabricConnectRequested>().size(), 1u);
}

TEST_F(FakeFabricTest, ALostReadyAndADisconnectAreReportedAsADisconnect) {
  Connect();
  network_.DeliverAll();
  Accept();
  network_.DeliverAll();
  client_.fabric->Perform(FabricComplete{kDevice, kOutgoing, {}});
  ASSERT_THAT(network_.Describe(0), HasSubstr("ready"));
  network_.Drop(0);
  network_.DeliverAll();
  client_.fabric->Perform(FabricDisconnect{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(server_.All<FabricEstablished>(), IsEmpty());
  EXPECT_THAT(server_.All<FabricDisconnected>(), ElementsAre(FabricDisconnected{Incoming()}));
}

TEST_F(FakeFabricTest, APartitionLosesMessagesOnTheirWayUntilItEnds) {
  Connect();
  network_.Partition(client_.fabric->host(), server_.fabric->host());
  network_.DeliverAll();
  EXPECT_THAT(server_.All<FabricConnectRequested>(), IsEmpty());
  network_.Rejoin(server_.fabric->host(), client_.fabric->host());
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(client_.All<FabricReleased>(), ElementsAre(FabricReleased{kOutgoing}));
}

TEST_F(FakeFabricTest, TheEndOfAProcessIsSeenAndThatOfAMachineIsNot) {
  Establish();
  server_.fabric.reset();
  network_.DeliverAll();
  EXPECT_THAT(client_.All<FabricDisconnected>(),
              ElementsAre(FabricDisconnected{kOutgoing, NdkStatus::kConnectionAborted, ECONNRESET}));
}

TEST_F(FakeFabricTest, APowerFailureIsSilent) {
  Establish();
  network_.Kill(server_.fabric->host());
  server_.fabric.reset();
  network_.DeliverAll();
  EXPECT_THAT(client_.All<FabricDisconnected>(), IsEmpty());
  client_.fabric->Perform(FabricDisconnect{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(client_.All<FabricDisconnected>(), IsEmpty());
}

TEST_F(FakeFabricTest, WhereNoProcessListensAnyMoreTheKernelRefuses) {
  Connect();
  server_.fabric.reset();
  network_.DeliverAll();
  ASSERT_EQ(client_.All<FabricConnectFailed>().size(), 1u);
  EXPECT_EQ(client_.All<FabricConnectFailed>()[0].status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(client_.All<FabricConnectFailed>()[0].provider_error, kReasonNoListener);
}

TEST_F(FakeFabricTest, UnreachableAndSilentAddressesAreWhatTheyAreSetTo) {
  network_.SetUnreachable(server_.address, NdkStatus::kNetworkUnreachable);
  Connect();
  network_.DeliverAll();
  ASSERT_EQ(client_.All<FabricConnectFailed>().size(), 1u);
  EXPECT_EQ(client_.All<FabricConnectFailed>()[0].status, NdkStatus::kNetworkUnreachable);
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.SetUnreachable(server_.address, std::nullopt);
  network_.SetSilent(server_.address, true);
  Connect();
  network_.DeliverAll();
  EXPECT_EQ(client_.All<FabricConnectFailed>().size(), 1u);
  EXPECT_EQ(client_.fabric->connections(), 1u);
}

TEST_F(FakeFabricTest, APlantedFaultMeetsTheNextRequestOfItsKindAndNoOther) {
  client_.fabric->FailNext(kDevice, FakeFabric::Step::kConnect,
                           {NdkStatus::kInsufficientResources, ENOMEM, /*qp_reusable=*/false});
  Connect();
  network_.DeliverAll();
  EXPECT_THAT(client_.All<FabricConnectFailed>(),
              ElementsAre(FabricConnectFailed{kOutgoing, NdkStatus::kInsufficientResources, ENOMEM, {}, false}));
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  Connect();
  network_.DeliverAll();
  EXPECT_EQ(server_.All<FabricConnectRequested>().size(), 1u);
}

TEST_F(FakeFabricTest, ASlowDeviceReportsAReleaseWhenItIsFinished) {
  FakeDevice slow{.releases_slowly = true};
  Host host(network_, "192.0.2.3", slow);
  host.Bind(kDialing, EndpointUse::kDedicated, 50000);
  host.fabric->Perform(FabricConnect{.device = kDevice,
                                     .connection = kOutgoing,
                                     .endpoint = kDialing,
                                     .qp = {7},
                                     .local = {host.address, 50000},
                                     .peer = {server_.address, 1}});
  network_.DeliverAll();
  host.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(host.All<FabricReleased>(), IsEmpty());
  EXPECT_EQ(host.fabric->connections(), 1u);
  host.fabric->FinishReleases(kDevice);
  host.fabric->FinishReleases(kDevice);
  network_.DeliverAll();
  EXPECT_THAT(host.All<FabricReleased>(), ElementsAre(FabricReleased{kOutgoing}));
  EXPECT_EQ(host.fabric->connections(), 0u);
}

TEST_F(FakeFabricTest, ASlowDeviceThatIsRemovedKeepsNoReleaseBack) {
  FakeDevice slow{.releases_slowly = true};
  Host host(network_, "192.0.2.3", slow);
  host.Bind(kDialing, EndpointUse::kDedicated, 50000);
  host.fabric->Perform(FabricConnect{.device = kDevice,
                                     .connection = kOutgoing,
                                     .endpoint = kDialing,
                                     .qp = {7},
                                     .local = {host.address, 50000},
                                     .peer = {server_.address, 4420}});
  host.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  host.fabric->RemoveDevice(kDevice);
  network_.DeliverAll();
  EXPECT_THAT(host.All<FabricReleased>(), ElementsAre(FabricReleased{kOutgoing}));
}

TEST_F(FakeFabricTest, ARemovedDeviceAbortsItsConnectionsAndFailsEveryRequest) {
  Establish();
  client_.fabric->RemoveDevice(kDevice);
  client_.Bind(EndpointId(5), EndpointUse::kListener, 4421);
  network_.DeliverAll();
  EXPECT_THAT(client_.All<DeviceRemoved>(), ElementsAre(DeviceRemoved{kDevice}));
  EXPECT_THAT(client_.All<FabricBindFailed>(),
              ElementsAre(FabricBindFailed{EndpointId(5), NdkStatus::kDeviceRemoved, ENODEV}));
  EXPECT_EQ(server_.All<FabricDisconnected>().size(), 1u);
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  client_.fabric->Perform(FabricUnbind{kDevice, kDialing});
  network_.DeliverAll();
  EXPECT_EQ(client_.fabric->connections(), 0u);
  EXPECT_EQ(client_.fabric->endpoints(), 0u);
}

TEST_F(FakeFabricTest, APumpDeliversWithoutBeingAsked) {
  network_.PumpWith([&](std::function<void()> task) { loop_.push_back(std::move(task)); });
  Connect();
  EXPECT_THAT(server_.All<FabricConnectRequested>(), IsEmpty());
  while (!loop_.empty()) {
    const auto task = std::move(loop_.front());
    loop_.pop_front();
    task();
  }
  EXPECT_EQ(server_.All<FabricConnectRequested>().size(), 1u);
  EXPECT_EQ(network_.deliverable(), 0u);
}

TEST(FakeNetworkPump, WhatIsStillPostedWhenTheNetworkIsGoneDoesNothing) {
  std::vector<std::function<void()>> loop;
  auto network = std::make_unique<FakeNetwork>();
  network->PumpWith([&](std::function<void()> task) { loop.push_back(std::move(task)); });
  auto host = std::make_unique<Host>(*network, "192.0.2.1");
  host->Bind(kListening, EndpointUse::kListener, 4420);
  ASSERT_EQ(loop.size(), 1u);
  host->fabric.reset();
  network.reset();
  loop[0]();
  EXPECT_THAT(host->All<FabricBound>(), IsEmpty());
}

TEST_F(FakeFabricTest, WhatBreaksTheContractIsNamed) {
  std::vector<std::string> breaches;
  network_.OnBreach([&](const std::string& what) { breaches.push_back(what); });
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  client_.fabric->Perform(FabricUnbind{kDevice, EndpointId(77)});
  client_.fabric->Perform(FabricRepurpose{kDevice, kDialing, EndpointUse::kListener});
  Connect();
  client_.fabric->Perform(FabricComplete{kDevice, kOutgoing, {}});
  ASSERT_EQ(breaches.size(), 4u);
  EXPECT_THAT(breaches[0], HasSubstr("FabricRelease: connection 1"));
  EXPECT_THAT(breaches[1], HasSubstr("FabricUnbind: endpoint 77"));
  EXPECT_THAT(breaches[2], HasSubstr("FabricRepurpose: endpoint 2"));
  EXPECT_THAT(breaches[3], HasSubstr("FabricComplete: connection 1"));
}

// Connections whose transport the client takes over.
class HandoffTest : public ::testing::Test {
 protected:
  struct Side {
    std::unique_ptr<FakeFabric> fabric;
    std::vector<FabricReport> reports;
    std::vector<bool> ends;
    std::optional<HandoffSecret> secret;
  };
  void Start(Side& side, const char* ip, uint64_t network_namespace) {
    FakeDevice fake{.device = MakeFakeDevice(kDevice, "iwarp0", network_namespace, {Ip(ip)})};
    fake.device.client_ends_connections = true;
    side.fabric = std::make_unique<FakeFabric>(network_, std::vector<FakeDevice>{fake});
    side.fabric->Start([&](FabricReport report) {
      if (const auto* established = std::get_if<FabricEstablished>(&report)) side.secret = established->handoff;
      if (const auto* requested = std::get_if<FabricConnectRequested>(&report)) incoming_ = requested->connection;
      side.reports.push_back(std::move(report));
    });
    side.fabric->OnTransportEnd([&](ConnectionId, bool graceful) { side.ends.push_back(graceful); });
  }
  void SetUp() override {
    Start(server_, "192.0.2.1", 1);
    Start(client_, "192.0.2.2", 2);
    server_.fabric->Perform(FabricBind{kDevice, kListening, EndpointUse::kListener, {Ip("192.0.2.1")}, 4420});
    client_.fabric->Perform(FabricBind{kDevice, kDialing, EndpointUse::kDedicated, {Ip("192.0.2.2")}, 50000});
    network_.DeliverAll();
    client_.fabric->Perform(FabricConnect{.device = kDevice,
                                          .connection = kOutgoing,
                                          .endpoint = kDialing,
                                          .qp = {7},
                                          .local = {Ip("192.0.2.2"), 50000},
                                          .peer = {Ip("192.0.2.1"), 4420}});
    network_.DeliverAll();
    server_.fabric->Perform(FabricAccept{.device = kDevice, .connection = incoming_, .qp = {9}});
    network_.DeliverAll();
    client_.fabric->Perform(FabricComplete{kDevice, kOutgoing, {}});
    network_.DeliverAll();
    ASSERT_TRUE(server_.secret && client_.secret);
    ASSERT_NE(*server_.secret, *client_.secret);
  }

  FakeNetwork network_;
  Side server_;
  Side client_;
  ConnectionId incoming_;
};

TEST_F(HandoffTest, ATransportIsFetchedOnceAndWithItsSecretOnly) {
  EXPECT_FALSE(client_.fabric->Fetch(*server_.secret));
  EXPECT_EQ(client_.fabric->Fetch(*client_.secret), kOutgoing);
  EXPECT_FALSE(client_.fabric->Fetch(*client_.secret));
  network_.DeliverAll();
  EXPECT_EQ(client_.reports.back(), FabricReport(FabricHandedOff{kOutgoing}));
}

TEST_F(HandoffTest, AFetchedTransportOutlivesTheReleaseAndEndsWithItsClient) {
  ASSERT_TRUE(client_.fabric->Fetch(*client_.secret));
  ASSERT_TRUE(server_.fabric->Fetch(*server_.secret));
  network_.DeliverAll();
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(server_.ends, IsEmpty());
  EXPECT_TRUE(client_.fabric->EndTransport(kOutgoing, /*graceful=*/true));
  EXPECT_FALSE(client_.fabric->EndTransport(kOutgoing, /*graceful=*/true));
  network_.DeliverAll();
  EXPECT_THAT(server_.ends, ElementsAre(true));
  EXPECT_TRUE(server_.fabric->EndTransport(incoming_, /*graceful=*/true));
  EXPECT_EQ(client_.fabric->transports() + server_.fabric->transports(), 0u);
}

TEST_F(HandoffTest, AnEstablishedConnectionThatNobodyFetchedEndsWithItsRelease) {
  ASSERT_TRUE(server_.fabric->Fetch(*server_.secret));
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing});
  network_.DeliverAll();
  EXPECT_THAT(server_.ends, ElementsAre(true));
  EXPECT_FALSE(client_.fabric->Fetch(*client_.secret));
}

TEST_F(HandoffTest, AConnectionThatItsClientHasEndedEndsInOrderForThePeer) {
  client_.fabric->Perform(FabricRelease{kDevice, kOutgoing, /*client_ended=*/true});
  network_.DeliverAll();
  EXPECT_EQ(server_.reports.back(), FabricReport(FabricDisconnected{incoming_, NdkStatus::kSuccess}));
}

}  // namespace
}  // namespace rdmabroker
