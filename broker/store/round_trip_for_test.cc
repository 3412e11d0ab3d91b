// SPDX-License-Identifier: Apache-2.0

#include "broker/store/round_trip_for_test.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "broker/store/format.h"
#include "broker/store/record_codec.h"

namespace rdmabroker {
namespace {

template <typename Message, typename Record>
absl::Status CheckAs(const Record& record) {
  Message sent;
  store::ToProto(record, &sent);
  Message received;
  if (!received.ParseFromString(sent.SerializeAsString())) return absl::InternalError("a message cannot be parsed");
  Record back{};
  absl::Status read = store::FromProto(received, &back);
  if (read.ok() && !(back == record)) read = absl::InternalError("is another after it was stored");
  return read.ok() ? read : absl::InternalError(absl::StrCat(read.message(), "\n", sent.DebugString()));
}

template <typename Record>
absl::Status Check(const Record& record) {
  return CheckAs<typename store::StoredAs<Record>::Message>(record);
}

absl::Status Check(const SessionRecord& session) {
  SessionRecord without_lists = session;
  without_lists.answers.clear();
  without_lists.events.clear();
  absl::Status status = CheckAs<store::v1::Session>(without_lists);
  for (const KeptAnswer& answer : session.answers) status.Update(CheckAs<store::v1::Answer>(answer));
  for (const SessionEvent& event : session.events) status.Update(CheckAs<store::v1::Event>(event));
  return status;
}

// The last enumerator's number is one less than how many there are.
template <typename Enumeration>
bool HasAll(const std::set<Enumeration>& values, Enumeration last) {
  return values.size() == static_cast<size_t>(last) + 1;
}

}  // namespace

absl::Status CheckRoundTrips(const Records& records, const Changes& changes) {
  absl::Status status = CheckAs<store::v1::Counters>(records.counters);
  ForEachTable(
      [&](const auto& table, const auto& ids) {
        for (const auto& [id, record] : table) {
          if (changes.all) status.Update(Check(record));
        }
        for (const auto id : ids) {
          if (table.contains(id)) status.Update(Check(table.at(id)));
        }
      },
      records, changes);
  return status;
}

void Variety::Note(const Records& records) {
  for (const auto& [id, connector] : records.connectors) connectors_.insert(connector.state);
  for (const auto& [id, listener] : records.listeners) listeners_.insert(listener.state);
  for (const auto& [id, endpoint] : records.endpoints) {
    endpoints_.insert(endpoint.state);
    uses_.insert(endpoint.use);
  }
  for (const auto& [id, session] : records.sessions) Note(session);
}

void Variety::Note(const SessionRecord& session) {
  for (const KeptAnswer& answer : session.answers) payloads_.insert(answer.outcome.payload.index());
  for (const SessionEvent& event : session.events) {
    events_.insert(event.index());
    if (const auto* outcome = std::get_if<OutcomeEvent>(&event)) payloads_.insert(outcome->outcome.payload.index());
  }
}

absl::Status Variety::Check() const {
  const std::pair<const char*, bool> kinds[] = {
      {"states of a connector", HasAll(connectors_, ConnectorState::kDead)},
      {"states of a listener", HasAll(listeners_, ListenerState::kListening)},
      {"states of an endpoint", HasAll(endpoints_, EndpointState::kUnbinding)},
      {"uses of an endpoint", HasAll(uses_, EndpointUse::kReserved)},
      {"payloads", payloads_.size() == std::variant_size_v<Payload::variant>},
      {"events", events_.size() == std::variant_size_v<SessionEvent::variant>},
  };
  for (const auto& [what, all] : kinds) {
    if (!all) return absl::InternalError(absl::StrCat("not all ", what, " have occurred"));
  }
  return absl::OkStatus();
}

}  // namespace rdmabroker
