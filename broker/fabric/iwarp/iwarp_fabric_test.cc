// SPDX-License-Identifier: Apache-2.0

// The device as its network namespace has it: the test moves into an empty one.

#include "broker/fabric/iwarp/iwarp_fabric.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "broker/fabric/fabric_records.h"
#include "broker/fabric/iwarp/testing/fabric_life.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/integration/interface.h"

namespace rdmabroker {
namespace {

void ExpectUnusableUntilThereIsAnAddress() {
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "a network namespace of one's own needs root: " << std::strerror(errno);
  Loop loop;
  HandoffTable handoffs;
  FakeSupervisor supervisor(false);
  DescriptorKeep keep(supervisor);
  FabricRecords records;
  auto fabric = IwarpFabric::Open(DeviceId(1), IwarpOptions(), loop, handoffs, keep, records);
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  std::vector<Device> devices;
  (*fabric)->Start([&](const FabricReport& report) { devices.push_back(std::get<DeviceChanged>(report).device); });
  const auto run_until = [&](const auto& done) {
    const absl::Time end = Loop::Now() + absl::Seconds(20);
    while (!done() && Loop::Now() < end) loop.RunTurn(end);
    return done();
  };
  ASSERT_TRUE(run_until([&] { return !devices.empty(); }));
  EXPECT_EQ(devices[0].addresses.size(), 0u);
  EXPECT_NE(devices[0].unusable_reason.find("no interface"), std::string::npos) << devices[0].unusable_reason;
  ASSERT_TRUE(RaiseInterface("lo")) << std::strerror(errno);
  ASSERT_TRUE(run_until([&] { return !devices.back().addresses.empty(); }));
  EXPECT_EQ(devices.back().unusable_reason, "");
}

TEST(IwarpFabric, CannotBeOpenedWhileNoInterfaceHasAnAddress) {
  // The namespace is its thread's, and goes with it.
  std::thread(ExpectUnusableUntilThereIsAnAddress).join();
}

// Both ends of a link with one link-local address, as VLANs of one interface have it.
void ExpectTwoEndpointsOfOneAddressOnTwoInterfaces() {
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "a network namespace of one's own needs root: " << std::strerror(errno);
  ASSERT_TRUE(MakeVethPair("left0", "right0", -1)) << std::strerror(errno);
  for (const char* name : {"lo", "left0", "right0"}) ASSERT_TRUE(RaiseInterface(name)) << std::strerror(errno);
  for (const char* name : {"left0", "right0"}) ASSERT_TRUE(AddIpv6Address(name, "fe80::1")) << std::strerror(errno);
  const SocketAddress left = *SocketAddress::Parse("[fe80::1%left0]:7000");
  const SocketAddress right = *SocketAddress::Parse("[fe80::1%right0]:7000");
  ASSERT_NE(left, right);
  FabricLife life(IpFamily::kIpv6);
  const auto bind = [&](const SocketAddress& address, EndpointUse use) {
    const EndpointId id(life.NextId());
    life.Perform(FabricBind{kDevice, id, use, {address.ip}, address.port});
    EXPECT_EQ(life.Await<FabricBound>().endpoint, id);
    return id;
  };
  const EndpointId on_left = bind(left, EndpointUse::kListener);
  const EndpointId on_right = bind(right, EndpointUse::kListener);
  uint16_t port = 7001;
  const auto expect_to_meet = [&](const SocketAddress& listener, EndpointId id) {
    const SocketAddress source = {listener.ip, port++};
    const EndpointId from = bind(source, EndpointUse::kDedicated);
    life.Perform(FabricConnect{
        kDevice, ConnectionId(life.NextId()), from, SessionId(1), QpNumber{2}, source, listener, {1, 1}, {}});
    const auto requested = life.Await<FabricConnectRequested>();
    EXPECT_EQ(requested.endpoint, id);
    EXPECT_EQ(requested.local, listener) << requested.local.ToString();
    EXPECT_EQ(requested.peer, source) << requested.peer.ToString();
  };
  expect_to_meet(left, on_left);
  expect_to_meet(right, on_right);
  if (!RenameInterface("left0", "other0")) {
    EXPECT_EQ(errno, EBUSY) << std::strerror(errno);
    return;
  }
  EXPECT_EQ(InterfaceName(left.ip.scope_id), "other0");
  expect_to_meet(left, on_left);
}

TEST(IwarpFabric, OneLinkLocalAddressOnTwoInterfacesIsTwoEndpointsWhateverTheInterfacesNames) {
  std::thread(ExpectTwoEndpointsOfOneAddressOnTwoInterfaces).join();
}

}  // namespace
}  // namespace rdmabroker
