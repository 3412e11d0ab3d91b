// SPDX-License-Identifier: Apache-2.0

// The fake as every kind of device that it can be.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "broker/fabric/fake/fake_fabric.h"
#include "tests/conformance/fabric_conformance.h"

namespace rdmabroker {
namespace {

std::vector<IpAddress> Addresses(std::initializer_list<const char*> texts) {
  std::vector<IpAddress> ips;
  for (const char* text : texts) ips.push_back(*IpAddress::Parse(text));
  return ips;
}

// `kind` says what is special about the devices. Both sides on one fabric where `apart` is false.
class FakePair final : public FabricPair {
 public:
  FakePair(const FakeDevice& kind, bool apart) {
    network_.OnBreach([](const std::string& what) { ADD_FAILURE() << what; });
    Add(kind, 1, Addresses({"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"}));
    if (apart) Add(kind, 2, Addresses({"192.0.2.3", "2001:db8::3"}));
  }
  ~FakePair() override {
    for (const auto& fabric : fabrics_) {
      EXPECT_EQ(fabric->endpoints(), 0u);
      EXPECT_EQ(fabric->connections(), 0u);
    }
  }

  Fabric& fabric(Side side) override { return Of(side); }
  bool Step(absl::Duration) override {
    if (network_.DeliverNext()) return true;
    for (const auto& fabric : fabrics_) fabric->FinishReleases(DeviceOf(fabric));
    return network_.DeliverNext();
  }
  QpNumber NewQp(Side, SessionId) override { return {++last_qp_}; }
  bool Occupy(Side side, const SocketAddress& address) override { return network_.Occupy(Claim(side, address)); }
  void Vacate(Side side, const SocketAddress& address) override { network_.Vacate(Claim(side, address)); }
  bool Fetch(Side side, const HandoffSecret& secret) override { return Of(side).Fetch(secret).has_value(); }
  void CloseTransport(Side side, ConnectionId connection) override { Of(side).EndTransport(connection, true); }
  // It reports where it did before.
  void GoOn(Side side, const Device&, const ReportSink&) override { Of(side).GoOnAsAnother(); }

 private:
  void Add(FakeDevice kind, uint64_t id, std::vector<IpAddress> ips) {
    const bool client_ends_connections = kind.device.client_ends_connections;
    kind.device = MakeFakeDevice(DeviceId(id), "fake" + std::to_string(id), id, std::move(ips));
    kind.device.client_ends_connections = client_ends_connections;
    port_space_ = kind.device.port_space;
    fabrics_.push_back(std::make_unique<FakeFabric>(network_, std::vector<FakeDevice>{std::move(kind)}));
  }
  FakeFabric& Of(Side side) { return side == Side::kServer ? *fabrics_.front() : *fabrics_.back(); }
  DeviceId DeviceOf(const std::unique_ptr<FakeFabric>& fabric) const {
    return DeviceId(fabric == fabrics_.front() ? 1 : 2);
  }
  PortClaim Claim(Side side, const SocketAddress& address) const {
    return {side == Side::kServer ? 1 : fabrics_.size(), port_space_, address};
  }

  FakeNetwork network_;
  std::vector<std::unique_ptr<FakeFabric>> fabrics_;
  PortSpace port_space_ = PortSpace::kRdmaCm;
  uint32_t last_qp_ = 16;
};

FabricCase Case(std::string name, const FakeDevice& kind, bool apart = true) {
  return {std::move(name), [kind, apart]() -> absl::StatusOr<std::unique_ptr<FabricPair>> {
            return std::make_unique<FakePair>(kind, apart);
          }};
}

const std::vector<FabricCase>& Disconnecting() {
  static const auto* const kCases = new std::vector<FabricCase>{
      Case("ThreeWay", {}),
      Case("Loopback", {}, /*apart=*/false),
      Case("TwoWay", {.three_way = false}),
      Case("Padding", {.pads_private_data = true}),
      Case("Abortive", {.releases_gracefully = false}),
      Case("TwoWayAbortive", {.three_way = false, .releases_gracefully = false}),
      Case("SilentAbandonment", {.reports_abandonment = false}),
      Case("SlowRelease", {.releases_slowly = true}),
  };
  return *kCases;
}

const std::vector<FabricCase>& HandingOff() {
  static const auto* const kCases = new std::vector<FabricCase>{
      Case("HandOff", {.device = {.client_ends_connections = true}}),
      Case("TwoWayHandOff", {.device = {.client_ends_connections = true}, .three_way = false}),
      Case("LoopbackHandOff", {.device = {.client_ends_connections = true}}, /*apart=*/false),
  };
  return *kCases;
}

const auto kFamilies = ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6);

std::string NameOf(const ::testing::TestParamInfo<std::tuple<FabricCase, IpFamily>>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == IpFamily::kIpv4 ? "Ipv4" : "Ipv6");
}

INSTANTIATE_TEST_SUITE_P(FakeDisconnecting, FabricConformance,
                         ::testing::Combine(::testing::ValuesIn(Disconnecting()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(FakeHandingOff, FabricConformance,
                         ::testing::Combine(::testing::ValuesIn(HandingOff()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(Fake, FabricDisconnectConformance,
                         ::testing::Combine(::testing::ValuesIn(Disconnecting()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(Fake, FabricHandOffConformance,
                         ::testing::Combine(::testing::ValuesIn(HandingOff()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(FakeDisconnecting, FabricAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(Disconnecting()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(FakeHandingOff, FabricAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(HandingOff()), kFamilies), NameOf);
INSTANTIATE_TEST_SUITE_P(Fake, FabricHandOffAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(HandingOff()), kFamilies), NameOf);

}  // namespace
}  // namespace rdmabroker
