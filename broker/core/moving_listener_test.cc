// SPDX-License-Identifier: Apache-2.0

// Listeners that may be at any adapter of their session, while addresses move between devices, adapters are opened and
// closed, and devices come and go, by chance.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/core/testing/observer.h"
#include "broker/core/testing/shadow.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

constexpr std::array kIps = {IpAddress{.bytes = {10, 0, 0, 1}}, IpAddress{.bytes = {10, 0, 0, 2}}};
constexpr size_t kDevices = 3;  // The last one is in another network namespace.

class MovingListener : public testing::Test {
 protected:
  void SetUp() override {
    random_.seed(seed_);
    Handle(OpenSession{StreamId(1), {1000, 1000, 1}, {}, AddressNews::kOfAll});
    for (size_t i = 0; i < kDevices; ++i) Return(i);
  }

  uint64_t Below(uint64_t limit) { return random_() % limit; }

  void Handle(const Event& event) {
    auto restored = BrokerCore::Restore(Limits{}, core_.records());
    ASSERT_TRUE(restored.ok()) << restored.status();
    const Effects effects = core_.Handle(absl::UnixEpoch(), event);
    ASSERT_EQ(restored->Handle(absl::UnixEpoch(), event), effects) << "a restored core does something else";
    for (const absl::Status& status :
         {core_.CheckInvariants(), observer_.Observe(event, effects, core_.records()), shadow_.Follow(core_)}) {
      ASSERT_TRUE(status.ok()) << status;
    }
    for (const Effect& effect : effects) {
      if (const auto* request = std::get_if<FabricRequest>(&effect)) Answer(*request);
      if (const auto* told = std::get_if<NumberedEvent>(&effect)) newest_event_ = told->number;
    }
  }

  // Queues the answer of the fabric.
  void Answer(const FabricRequest& request) {
    if (const auto* bind = std::get_if<FabricBind>(&request)) {
      reports_.push_back(FabricBound{bind->endpoint});
      was_on_.emplace_back(bind->endpoint, bind->device);
    } else if (const auto* rebind = std::get_if<FabricRebind>(&request)) {
      was_on_.emplace_back(rebind->endpoint, rebind->device);
    } else if (const auto* unbind = std::get_if<FabricUnbind>(&request)) {
      std::erase_if(was_on_, [&](const auto& place) { return place.first == unbind->endpoint; });
      reports_.push_back(FabricUnbound{unbind->endpoint});
    } else if (const auto* accept = std::get_if<FabricAccept>(&request)) {
      reports_.push_back(FabricEstablished{accept->connection, std::nullopt});
    } else if (const auto* disconnect = std::get_if<FabricDisconnect>(&request)) {
      reports_.push_back(FabricDisconnected{disconnect->connection, NdkStatus::kSuccess, 0});
    } else if (const auto* released = std::get_if<FabricRelease>(&request)) {
      reports_.push_back(FabricReleased{released->connection});
    } else if (const auto* rejected = std::get_if<FabricReject>(&request)) {
      reports_.push_back(FabricReleased{rejected->connection});
    } else if (const auto* refused = std::get_if<FabricRefuse>(&request)) {
      reports_.push_back(FabricReleased{refused->connection});
    }
  }

  void Ask(Request request) {
    Handle(ClientRequest{SessionId(1), RequestId(++requests_), newest_event_, std::move(request)});
  }

  void Return(size_t i) {
    Device& device = devices_[i].emplace();
    device.id = DeviceId(++last_device_);
    device.name = "nic" + std::to_string(i);
    device.network_namespace = i + 1 == kDevices ? 2 : 1;
    device.info.max_inbound_read_limit = device.info.max_outbound_read_limit = 4;
    Handle(FabricReport(DeviceChanged{device}));
  }

  // An id of the table, or one that it has not got.
  template <typename Id, typename Record>
  Id Any(const Table<Id, Record>& table) {
    std::vector<Id> ids = {Id(999)};
    for (const auto& [id, record] : table) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    return ids[Below(ids.size())];
  }

  void MoveAddress() {
    const size_t i = Below(kDevices);
    if (!devices_[i]) return Return(i);
    std::vector<IpAddress>& addresses = devices_[i]->addresses;
    const IpAddress& ip = kIps[Below(kIps.size())];
    if (std::erase(addresses, ip) == 0) addresses.push_back(ip);
    std::sort(addresses.begin(), addresses.end());
    Handle(FabricReport(DeviceChanged{*devices_[i]}));
  }

  void LoseDevice() {
    const size_t i = Below(kDevices);
    if (!devices_[i]) return;
    const DeviceId lost = std::exchange(devices_[i], std::nullopt)->id;
    std::erase_if(was_on_, [&](const auto& place) { return place.second == lost; });
    Handle(FabricReport(DeviceRemoved{lost}));
  }

  // Where the endpoint is, or was before it moved and the fabric knew.
  void Connect() {
    if (was_on_.empty()) return;
    const auto [endpoint, device] = was_on_[Below(was_on_.size())];
    const auto found = core_.records().endpoints.find(endpoint);
    if (found == core_.records().endpoints.end() || found->second.state == EndpointState::kBinding) return;
    FabricConnectRequested report = {.endpoint = endpoint,
                                     .connection = IncomingConnection(DeviceId(1), ++last_connection_),
                                     .local = found->second.address,
                                     .peer = {{.bytes = {10, 0, 0, 9}}, static_cast<uint16_t>(last_connection_)},
                                     .device = device};
    Handle(FabricReport(report));
  }

  void Step() {
    const Records& records = core_.records();
    const std::string name = "nic" + std::to_string(Below(kDevices));
    const SocketAddress address = {kIps[Below(kIps.size())], static_cast<uint16_t>(7000 + Below(2))};
    switch (Below(12)) {
      case 0:
        return Ask(OpenAdapter{name, kNdkVersion});
      case 1:
        if (Below(4) == 0) return Ask(CloseAdapter{Any(records.adapters)});
        return Ask(CreateListener{Any(records.adapters)});
      case 2:
        return Ask(Listen{Any(records.listeners), address, {}, true, Below(4) != 0});
      case 3:
        if (Below(4) == 0) return Ask(CloseListener{Any(records.listeners)});
        return Ask(ControlConnectEvents{Any(records.listeners), false});
      case 4:
        return Ask(Accept{Any(records.connectors), {static_cast<uint32_t>(1 + Below(50))}, {}, {}});
      case 5:
        return Ask(CloseConnector{Any(records.connectors)});
      case 6:
        if (Below(8) == 0) LoseDevice();
        return;
      case 7:
      case 8:
        return MoveAddress();
      case 9:
        return Connect();
      default:
        if (reports_.empty()) return;
        const FabricReport report = reports_.front();
        reports_.pop_front();
        return Handle(report);
    }
  }

  // Expects the listener at its address if its session has an adapter on a device that has the address.
  void ExpectInPlace(const ListenerRecord& listener) {
    const Records& records = core_.records();
    const EndpointRecord& endpoint = records.endpoints.at(listener.endpoint);
    const DeviceRecord& own = records.devices.at(records.adapters.at(listener.adapter).device);
    if (endpoint.state != EndpointState::kBound || listener.closing || own.removed) return;
    std::vector<DeviceId> places;
    for (const std::optional<Device>& device : devices_) {
      if (!device || std::ranges::count(device->addresses, endpoint.address.ip) == 0) continue;
      const bool open = std::ranges::any_of(records.adapters, [&](const auto& adapter) {
        return adapter.second.device == device->id && !adapter.second.closing;
      });
      const bool alike = device->network_namespace == own.device.network_namespace;
      if (device->id == own.device.id || (listener.any_adapter && open && alike)) places.push_back(device->id);
    }
    EXPECT_EQ(endpoint.ips.empty(), places.empty()) << "listener " << listener.id.value();
    if (places.empty()) places.push_back(own.device.id);
    EXPECT_EQ(std::ranges::count(places, endpoint.device), 1) << "listener " << listener.id.value();
    moved_ += endpoint.device != own.device.id;
  }

  const uint32_t seed_ = RandomSeed();
  std::mt19937 random_;
  BrokerCore core_{Limits{}};
  Observer observer_{Limits{}};
  Shadow shadow_{core_};
  std::array<std::optional<Device>, kDevices> devices_;
  std::deque<FabricReport> reports_;
  std::vector<std::pair<EndpointId, DeviceId>> was_on_;
  uint64_t requests_ = 0, last_device_ = 0, last_connection_ = 0;
  EventNumber newest_event_;
  uint64_t moved_ = 0;
};

TEST_F(MovingListener, IsWhereItsAddressIs) {
  SCOPED_TRACE("RDMA_BROKER_SEED=" + std::to_string(seed_));
  // Some walks go long without a move.
  const auto has_seen_enough = [this] { return moved_ > 100 && last_connection_ > 100; };
  for (int i = 0; !HasFailure() && (i < 5'000 || (!has_seen_enough() && i < 200'000)); ++i) {
    Step();
    for (const auto& [id, listener] : core_.records().listeners) {
      if (listener.state == ListenerState::kListening) ExpectInPlace(listener);
    }
  }
  EXPECT_TRUE(has_seen_enough()) << moved_ << " moves, " << last_connection_ << " connections";
}

}  // namespace
}  // namespace rdmabroker
