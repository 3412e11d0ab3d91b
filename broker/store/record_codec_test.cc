// SPDX-License-Identifier: Apache-2.0

#include "broker/store/record_codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/changes.h"
#include "broker/store/format.h"
#include "broker/store/records_for_test.h"
#include "broker/store/round_trip_for_test.h"
#include "tests/random_seed.h"

namespace rdmabroker::store {
namespace {

namespace wire = rdmabroker::v1;

TEST(ARecord, SurvivesWithEveryField) {
  const absl::Status survives = CheckRoundTrips(FullRecords(), {.all = true});
  EXPECT_TRUE(survives.ok()) << survives;
}

TEST(ARecord, SurvivesWithoutAnyField) {
  Records records;
  records.devices[DeviceId(1)];
  records.sessions[SessionId(1)];
  records.endpoints[EndpointId(1)];
  records.connections[ConnectionId(1)];
  const absl::Status survives = CheckRoundTrips(records, {.all = true});
  EXPECT_TRUE(survives.ok()) << survives;
}

// `set` gives a record of the table a value, of which there are so many.
template <typename Id, typename Record, typename Set>
void ExpectEachSurvives(Table<Id, Record> Records::*table, size_t values, Set set) {
  Records records;
  const Records full = FullRecords();
  Record& record = (records.*table)[Id(1)] = (full.*table).begin()->second;
  for (size_t value = 0; value < values; ++value) {
    set(record, value);
    const absl::Status survives = CheckRoundTrips(records, {.all = true});
    EXPECT_TRUE(survives.ok()) << value << ": " << survives;
  }
}

TEST(ARecord, SurvivesWithEveryValueOfEveryEnumeration) {
  ExpectEachSurvives(&Records::sessions, static_cast<size_t>(AddressNews::kOfAll) + 1,
                     [](SessionRecord& record, size_t i) { record.address_news = static_cast<AddressNews>(i); });
  ExpectEachSurvives(&Records::listeners, static_cast<size_t>(ListenerState::kListening) + 1,
                     [](ListenerRecord& record, size_t i) { record.state = static_cast<ListenerState>(i); });
  ExpectEachSurvives(&Records::connectors, static_cast<size_t>(ConnectorState::kDead) + 1,
                     [](ConnectorRecord& record, size_t i) { record.state = static_cast<ConnectorState>(i); });
  ExpectEachSurvives(&Records::endpoints, static_cast<size_t>(EndpointState::kUnbinding) + 1,
                     [](EndpointRecord& record, size_t i) { record.state = static_cast<EndpointState>(i); });
  ExpectEachSurvives(&Records::endpoints, static_cast<size_t>(EndpointUse::kReserved) + 1,
                     [](EndpointRecord& record, size_t i) { record.use = static_cast<EndpointUse>(i); });
  ExpectEachSurvives(&Records::connections, static_cast<size_t>(Farewell::kRefuse) + 1,
                     [](ConnectionRecord& record, size_t i) { record.farewell = static_cast<Farewell>(i); });
  ExpectEachSurvives(&Records::endpoints, static_cast<size_t>(PortSpace::kTcp) + 1,
                     [](EndpointRecord& record, size_t i) { record.port_space = static_cast<PortSpace>(i); });
  ExpectEachSurvives(&Records::devices, static_cast<size_t>(PortSpace::kTcp) + 1,
                     [](DeviceRecord& record, size_t i) { record.device.port_space = static_cast<PortSpace>(i); });
  ExpectEachSurvives(
      &Records::devices, static_cast<size_t>(RdmaTechnology::kRoceV2) + 1,
      [](DeviceRecord& record, size_t i) { record.device.info.technology = static_cast<RdmaTechnology>(i); });
  const auto* statuses = wire::NdkStatus_descriptor();
  ExpectEachSurvives(&Records::connectors, static_cast<size_t>(statuses->value_count()),
                     [](ConnectorRecord& record, size_t i) {
                       const int number = wire::NdkStatus_descriptor()->value(static_cast<int>(i))->number();
                       record.dead_status = StatusFromNumber(static_cast<uint32_t>(number)).value();
                     });
}

// An Accept may carry nothing, which is not the same as data that nobody recorded.
TEST(ARecord, SurvivesWithAnAcceptsDataThatIsEmptyOrUnknown) {
  const std::vector<std::optional<Bytes>> values = {Bytes(), std::nullopt};
  ExpectEachSurvives(&Records::connectors, values.size(),
                     [&](ConnectorRecord& record, size_t i) { record.accept_data = values[i]; });
}

TEST(ATime, SurvivesWithItsInfinities) {
  for (const Instant time :
       {absl::InfinitePast(), absl::InfiniteFuture(), absl::UnixEpoch(), absl::FromUnixNanos(-1),
        absl::FromUnixNanos(1), absl::FromUnixSeconds(9000000000), absl::FromUnixSeconds(-9000000000)}) {
    EXPECT_EQ(ReadTime(ToProto(time)), time);
  }
}

// A stored message of which one field cannot be, and how the complaint begins.
template <typename Message, typename Record>
struct Hostile {
  std::string complaint;
  std::function<void(Message&)> change;
};

template <typename Message, typename Record>
void ExpectRefused(const Record& record, const std::vector<Hostile<Message, Record>>& cases) {
  for (const auto& [complaint, change] : cases) {
    Message message;
    ToProto(record, &message);
    change(message);
    Record back{};
    const absl::Status read = FromProto(message, &back);
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << complaint;
    EXPECT_EQ(std::string(read.message()).substr(0, complaint.size()), complaint);
  }
}

TEST(AHostileRecord, OfACounterOrDeviceIsRefusedByItsFieldsName) {
  const Records records = FullRecords();
  ExpectRefused<v1::Counters, Counters>(
      records.counters, {{"ephemeral_port: 65536; at most 65535", [](auto& m) { m.set_ephemeral_port(65536); }}});
  ExpectRefused<v1::Device, DeviceRecord>(
      records.devices.at(DeviceId(1)),
      {{"info.version.major: 65536", [](auto& m) { m.mutable_info()->mutable_version()->set_major(65536); }},
       {"info.version.minor: 65537", [](auto& m) { m.mutable_info()->mutable_version()->set_minor(65537); }},
       {"info.technology: 9", [](auto& m) { m.mutable_info()->set_technology(static_cast<wire::RdmaTechnology>(9)); }},
       {"port_space: 0", [](auto& m) { m.clear_port_space(); }},
       {"port_space: -1", [](auto& m) { m.set_port_space(static_cast<wire::PortSpace>(-1)); }},
       {"addresses[1].ip: 5 bytes", [](auto& m) { m.mutable_addresses(1)->set_ip("12345"); }},
       {"addresses[2].ip: 0 bytes", [](auto& m) { m.add_addresses(); }}});
}

TEST(AHostileRecord, OfASessionIsRefusedByItsFieldsName) {
  const SessionRecord session = FullRecords().sessions.at(SessionId(1));
  ExpectRefused<v1::Session, SessionRecord>(
      session, {{"secret: 15 bytes", [](auto& m) { m.set_secret(std::string(15, 'x')); }},
                {"secret: 0 bytes", [](auto& m) { m.clear_secret(); }},
                {"address_news: 3", [](auto& m) { m.set_address_news(static_cast<v1::AddressNews>(3)); }}});
  ExpectRefused<v1::Answer, KeptAnswer>(
      session.answers.at(3),
      {{"request_digest: 15 bytes", [](auto& m) { m.set_request_digest(std::string(15, 'x')); }},
       {"outcome.status: 77 is no status",
        [](auto& m) { m.mutable_outcome()->set_status(static_cast<wire::NdkStatus>(77)); }},
       {"outcome.listening.address.ip: 0 bytes", [](auto& m) { m.mutable_outcome()->mutable_listening(); }},
       {"outcome.connection_established.handoff_secret: 17 bytes", [](auto& m) {
          m.mutable_outcome()->mutable_connection_established()->set_handoff_secret(std::string(17, 'x'));
        }}});
  ExpectRefused<v1::Event, SessionEvent>(
      session.events.at(0),
      {{"event: missing", [](auto& m) { m.Clear(); }},
       {"connect.data.peer.ip: 2 bytes",
        [](auto& m) { m.mutable_connect()->mutable_data()->mutable_peer()->set_ip("12"); }},
       {"connect.data.qp_attributes[0].destination_gid: 1 bytes; 16 are wanted",
        [](auto& m) { m.mutable_connect()->mutable_data()->mutable_qp_attributes(0)->set_destination_gid("1"); }},
       {"endpoint_address.endpoint: missing", [](auto& m) { m.mutable_endpoint_address(); }},
       {"disconnect.status: 1", [](auto& m) { m.mutable_disconnect()->set_status(static_cast<wire::NdkStatus>(1)); }},
       {"outcome.outcome.status: 3",
        [](auto& m) { m.mutable_outcome()->mutable_outcome()->set_status(static_cast<wire::NdkStatus>(3)); }}});
}

TEST(AHostileRecord, OfAnObjectIsRefusedByItsFieldsName) {
  const Records records = FullRecords();
  ExpectRefused<v1::Adapter, AdapterRecord>(
      records.adapters.at(AdapterId(2)),
      {{"object.session: missing", [](auto& m) { m.clear_object(); }},
       {"requested.minor: 65536", [](auto& m) { m.mutable_requested()->set_minor(65536); }}});
  ExpectRefused<v1::Listener, ListenerRecord>(
      records.listeners.at(ListenerId(3)),
      {{"state: 0", [](auto& m) { m.clear_state(); }},
       {"state: 4", [](auto& m) { m.set_state(static_cast<v1::ListenerState>(4)); }},
       {"object.session: missing", [](auto& m) { m.mutable_object()->clear_session(); }}});
  ExpectRefused<v1::SharedEndpoint, SharedEndpointRecord>(
      records.shared_endpoints.at(SharedEndpointId(4)),
      {{"object.session: missing", [](auto& m) { m.clear_object(); }}});
  ExpectRefused<v1::Reservation, ReservationRecord>(records.reservations.at(ReservationId(5)),
                                                    {{"object.session: missing", [](auto& m) { m.clear_object(); }}});
  ExpectRefused<v1::Connector, ConnectorRecord>(
      records.connectors.at(ConnectorId(6)),
      {{"rnr_retry_count: 8; at most 7", [](auto& m) { m.set_rnr_retry_count(8); }},
       {"state: 12", [](auto& m) { m.set_state(static_cast<v1::ConnectorState>(12)); }},
       {"local.ip: 17 bytes", [](auto& m) { m.mutable_local()->set_ip(std::string(17, 'x')); }},
       {"peer.port: 4294967295", [](auto& m) { m.mutable_peer()->set_port(0xFFFFFFFF); }},
       {"qp_attributes[2].destination_gid: 0", [](auto& m) { m.mutable_qp_attributes(2)->clear_destination_gid(); }},
       {"dead_status: 5", [](auto& m) { m.set_dead_status(static_cast<wire::NdkStatus>(5)); }},
       {"failure.status: 6", [](auto& m) { m.mutable_failure()->set_status(static_cast<wire::NdkStatus>(6)); }}});
}

TEST(AHostileRecord, OfAnEndpointOrConnectionIsRefusedByItsFieldsName) {
  const Records records = FullRecords();
  ExpectRefused<v1::Endpoint, EndpointRecord>(
      records.endpoints.at(EndpointId(1)),
      {{"port_space: 3", [](auto& m) { m.set_port_space(static_cast<wire::PortSpace>(3)); }},
       {"use: 5", [](auto& m) { m.set_use(static_cast<v1::EndpointUse>(5)); }},
       {"state: 5", [](auto& m) { m.set_state(static_cast<v1::EndpointState>(5)); }},
       {"address.ip: 0 bytes", [](auto& m) { m.clear_address(); }},
       {"ips[0].ip: 15 bytes", [](auto& m) { m.mutable_ips(0)->set_ip(std::string(15, 'x')); }},
       {"owner: missing", [](auto& m) { m.clear_owner(); }}});
  ExpectRefused<v1::Connection, ConnectionRecord>(
      records.connections.at(ConnectionId(7)),
      {{"local.port: 65536", [](auto& m) { m.mutable_local()->set_port(65536); }},
       {"peer.ip: 1 bytes", [](auto& m) { m.mutable_peer()->set_ip("1"); }}});
}

// Reads as a record of every kind what is nearly one of some kind.
TEST(AHostileRecord, IsReadOrRefused) {
  const uint32_t seed = RandomSeed();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const Records records = FullRecords();
  std::vector<std::string> genuine;
  ForEachTable(
      [&](const auto& table) {
        for (const auto& [id, record] : table) {
          typename StoredAs<std::decay_t<decltype(record)>>::Message message;
          ToProto(record, &message);
          genuine.push_back(message.SerializeAsString());
        }
      },
      records);
  for (const KeptAnswer& answer : records.sessions.at(SessionId(1)).answers) {
    v1::Answer message;
    ToProto(answer, &message);
    genuine.push_back(message.SerializeAsString());
  }
  const auto read = [](const std::string& bytes, auto message, auto record) {
    if (message.ParseFromString(bytes)) (void)FromProto(message, &record);
  };
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = genuine[random() % genuine.size()];
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      char& byte = bytes[random() % bytes.size()];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    read(bytes, v1::Device(), DeviceRecord());
    read(bytes, v1::Session(), SessionRecord());
    read(bytes, v1::Answer(), KeptAnswer());
    read(bytes, v1::Event(), SessionEvent());
    read(bytes, v1::Connector(), ConnectorRecord());
    read(bytes, v1::Endpoint(), EndpointRecord());
    read(bytes, v1::Connection(), ConnectionRecord());
  }
}

}  // namespace
}  // namespace rdmabroker::store
