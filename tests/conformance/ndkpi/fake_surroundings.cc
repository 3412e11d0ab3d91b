// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/fake_surroundings.h"

#include <cstdint>
#include <sstream>
#include <vector>

namespace rdmabroker::ndkpi {
namespace {

constexpr DeviceId kDevice(1);
constexpr uint64_t kNetwork = 1;

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

}  // namespace

FakeDevice TheFakeDevice() {
  FakeDevice fake = {.device =
                         MakeFakeDevice(kDevice, "fake0", kNetwork,
                                        {Ip("192.0.2.1"), Ip("192.0.2.2"), Ip("2001:db8::1"), Ip("2001:db8::2")})};
  fake.device.info.technology = RdmaTechnology::kIwarp;
  fake.device.client_ends_connections = true;
  return fake;
}

FakeSurroundings::FakeSurroundings() {
  network_.Do([](FakeNetwork& network) {
    network.SetSilent(Ip("192.0.2.250"), true);
    network.SetUnreachable(Ip("203.0.113.1"), NdkStatus::kNetworkUnreachable);
  });
}

FakeSurroundings::~FakeSurroundings() {
  network_.Do([this](FakeNetwork&) { stranger_.reset(); });
}

std::string FakeSurroundings::Answer(const std::string& command) {
  std::istringstream words(command);
  std::string verb, object;
  words >> verb >> object;
  if (verb == "stand" || verb == "go") {
    network_.Do([&](FakeNetwork&) { verb == "stand" ? network_.Hold() : network_.Release(); });
    return "done";
  }
  const auto address = SocketAddress::Parse(object);
  if (!address) return "there is no command " + command;
  std::string answer = "done";
  network_.Do([&](FakeNetwork& network) {
    const PortClaim port = {kNetwork, PortSpace::kRdmaCm, *address};
    if (verb == "occupy") {
      if (!network.Occupy(port)) answer = "occupied";
    } else if (verb == "vacate") {
      network.Vacate(port);
    } else if (verb == "ask") {
      Ask(network, *address);
    } else {
      answer = "there is no command " + command;
    }
  });
  return answer;
}

// On the network's thread.
void FakeSurroundings::Ask(FakeNetwork& network, const SocketAddress& destination) {
  constexpr EndpointId kEndpoint(1);
  const SocketAddress own = {Ip("192.0.2.3"), 1};
  const FakeDevice device = {.device = MakeFakeDevice(kDevice, "other", kNetwork, {own.ip})};
  const uint32_t more = 2 * device.device.info.max_inbound_read_limit;
  stranger_.reset();
  stranger_ = std::make_unique<FakeFabric>(network, std::vector<FakeDevice>{device});
  stranger_->Start([](const FabricReport&) {});
  stranger_->Perform(FabricBind{kDevice, kEndpoint, EndpointUse::kDedicated, {own.ip}, own.port});
  stranger_->Perform(FabricConnect{.device = kDevice,
                                   .connection = ConnectionId(1),
                                   .endpoint = kEndpoint,
                                   .session = SessionId(1),
                                   .qp = {1},
                                   .local = own,
                                   .peer = destination,
                                   .limits = {more, more}});
}

}  // namespace rdmabroker::ndkpi
