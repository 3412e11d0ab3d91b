// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/families.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using prometheus::MetricFamily;

// By the enumerations' values.
constexpr std::array<absl::string_view, kConnectorStates> kConnectorStateNames = {
    "idle",      "binding",     "connecting",        "replied",       "completing", "requested",
    "accepting", "established", "peer_disconnected", "disconnecting", "dead"};
constexpr std::array<absl::string_view, kEndpointStates> kEndpointStateNames = {"binding", "bound", "repurposing",
                                                                                "unbinding"};
constexpr std::array<absl::string_view, Snapshot::kSessionStates> kSessionStateNames = {"open", "away", "ending"};
constexpr std::array<absl::string_view, Snapshot::kAdapterStates> kAdapterStateNames = {"enabled", "unusable",
                                                                                        "disabling", "disabled"};
constexpr std::array<absl::string_view, kRefusals> kRefusalNames = {
    "peer",    "client",         "no_listener",           "paused", "closing",
    "backlog", "device_removed", "unacknowledged_events", "quota"};
constexpr Side kSides[] = {Side::kActive, Side::kPassive};

// The reasons that a side can have; the others have no series.
bool Has(Side side, Refusal refusal) {
  if (refusal == Refusal::kClient) return true;
  return (refusal == Refusal::kPeer) == (side == Side::kActive);
}

template <typename Counts, typename Names>
MetricFamily ByState(absl::string_view name, absl::string_view help, const Counts& counts, const Names& names) {
  Family family = GaugeFamily(name, help);
  for (size_t i = 0; i < names.size(); ++i) {
    family.Add(static_cast<double>(counts[i]), {{"state", std::string(names[i])}});
  }
  return std::move(family).Take();
}

void AddHandshakes(const Tally& tally, std::vector<MetricFamily>& families) {
  Family established = CounterFamily("rdma_broker_handshakes_total", "Handshakes that ended with a connection.");
  Family failed = CounterFamily("rdma_broker_handshake_failures_total",
                                "Handshakes that failed, other than by the consumer's own reject or close.");
  Family rejected = CounterFamily("rdma_broker_rejects_total", "Connect requests and replies that were refused.");
  for (const Side side : kSides) {
    const std::string name(NameOf(side));
    const auto index = static_cast<size_t>(side);
    established.Add(static_cast<double>(tally.handshakes[index]), {{"side", name}});
    for (size_t i = 0; i < kRefusals; ++i) {
      if (!Has(side, static_cast<Refusal>(i))) continue;
      rejected.Add(static_cast<double>(tally.refusals[index][i]),
                   {{"side", name}, {"reason", std::string(kRefusalNames[i])}});
    }
  }
  for (const auto& [which, count] : tally.failures) {
    failed.Add(static_cast<double>(count),
               {{"side", std::string(NameOf(which.first))}, {"status", std::string(StatusName(which.second))}});
  }
  families.push_back(std::move(established).Take());
  families.push_back(std::move(failed).Take());
  families.push_back(std::move(rejected).Take());
}

struct AdapterNumber {
  bool counts_up;
  absl::string_view name;
  absl::string_view help;
  double (*value)(const Snapshot::Adapter&);
};

constexpr AdapterNumber kAdapterNumbers[] = {
    {true, "rdma_broker_adapter_connects_total", "Connections that the active side established (NDKPI's Connect).",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.counts.connects); }},
    {true, "rdma_broker_adapter_accepts_total", "Connections that the passive side established (NDKPI's Accept).",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.counts.accepts); }},
    {true, "rdma_broker_adapter_connect_failures_total", "Failed handshakes of both sides (NDKPI's ConnectFailure).",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.counts.connect_failures); }},
    {true, "rdma_broker_adapter_connection_errors_total",
     "Established connections that broke (NDKPI's ConnectionError).",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.counts.connection_errors); }},
    {false, "rdma_broker_adapter_active_connections", "Established connections (NDKPI's ActiveConnection).",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.active_connections); }},
    {false, "rdma_broker_adapter_open", "How often the adapter is open.",
     [](const Snapshot::Adapter& each) { return static_cast<double>(each.open); }},
};

void AddAdapters(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  for (const AdapterNumber& number : kAdapterNumbers) {
    Family family = number.counts_up ? CounterFamily(number.name, number.help) : GaugeFamily(number.name, number.help);
    for (const Snapshot::Adapter& adapter : snapshot.adapters) {
      family.Add(number.value(adapter), {{"adapter", adapter.name}});
    }
    families.push_back(std::move(family).Take());
  }
  Family state = GaugeFamily("rdma_broker_adapter_state", "1 for the state that the adapter is in, else 0.");
  for (const Snapshot::Adapter& adapter : snapshot.adapters) {
    for (size_t i = 0; i < kAdapterStateNames.size(); ++i) {
      state.Add(static_cast<size_t>(adapter.state) == i ? 1 : 0,
                {{"adapter", adapter.name}, {"state", std::string(kAdapterStateNames[i])}});
    }
  }
  families.push_back(std::move(state).Take());
}

struct SessionNumber {
  absl::string_view name;
  absl::string_view help;
  double (*value)(const Snapshot::Session&);
};

constexpr SessionNumber kSessionNumbers[] = {
    {"rdma_broker_session_adapters", "Open adapters of the session.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.adapters); }},
    {"rdma_broker_session_listeners", "Listeners of the session.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.listeners); }},
    {"rdma_broker_session_shared_endpoints", "Shared endpoints of the session.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.shared_endpoints); }},
    {"rdma_broker_session_reservations", "Reservations of the session.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.reservations); }},
    {"rdma_broker_session_connectors", "Connectors of the session.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.connectors); }},
    {"rdma_broker_session_unacknowledged_events", "Events that the session's client has not acknowledged.",
     [](const Snapshot::Session& each) { return static_cast<double>(each.unacknowledged_events); }},
};

void AddSessions(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  families.push_back(
      ByState("rdma_broker_sessions", "Sessions, by state.", snapshot.session_states, kSessionStateNames));
  for (const SessionNumber& number : kSessionNumbers) {
    Family family = GaugeFamily(number.name, number.help);
    for (const Snapshot::Session& session : snapshot.sessions) {
      family.Add(number.value(session), {{"session", absl::StrCat(session.id.value())}});
    }
    families.push_back(std::move(family).Take());
  }
  families.push_back(GaugeFamily("rdma_broker_sessions_left_out", "Sessions without series of their own.")
                         .Add(static_cast<double>(snapshot.sessions_left_out))
                         .Take());
}

MetricFamily Number(absl::string_view name, absl::string_view help, size_t value) {
  return GaugeFamily(name, help).Add(static_cast<double>(value)).Take();
}

}  // namespace

Family::Family(prometheus::MetricType type, absl::string_view name, absl::string_view help) {
  family_.type = type;
  family_.name = std::string(name);
  family_.help = std::string(help);
}

Family& Family::Add(double value, const Labels& labels) & {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  for (const auto& [name, text] : labels) metric.label.push_back({std::string(name), text});
  (family_.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return *this;
}

Family Family::Add(double value, const Labels& labels) && {
  Add(value, labels);
  return std::move(*this);
}

Family CounterFamily(absl::string_view name, absl::string_view help) {
  return Family(prometheus::MetricType::Counter, name, help);
}

Family GaugeFamily(absl::string_view name, absl::string_view help) {
  return Family(prometheus::MetricType::Gauge, name, help);
}

absl::string_view NameOf(Side side) { return side == Side::kActive ? "active" : "passive"; }

std::vector<MetricFamily> FamiliesOf(const Snapshot& snapshot) {
  std::vector<MetricFamily> families;
  AddHandshakes(snapshot.tally, families);
  AddAdapters(snapshot, families);
  AddSessions(snapshot, families);
  families.push_back(
      ByState("rdma_broker_connectors", "Connectors, by state.", snapshot.states.connectors, kConnectorStateNames));
  families.push_back(
      ByState("rdma_broker_endpoints", "Local addresses, by state.", snapshot.states.endpoints, kEndpointStateNames));
  families.push_back(Number("rdma_broker_listeners", "Listeners.", snapshot.listeners));
  families.push_back(Number("rdma_broker_shared_endpoints", "Shared endpoints.", snapshot.shared_endpoints));
  families.push_back(Number("rdma_broker_reservations", "Reservations.", snapshot.reservations));
  families.push_back(Number("rdma_broker_kept_descriptors", "Descriptors that the supervisor keeps for the broker.",
                            snapshot.kept_descriptors));
  families.push_back(Number("rdma_broker_kept_descriptors_limit", "So many descriptors the supervisor keeps at most.",
                            snapshot.most_kept_descriptors));
  families.push_back(
      Number("rdma_broker_kept_bytes", "Sessions with their objects, answers and events.", snapshot.kept_bytes));
  families.push_back(Number("rdma_broker_held_bytes", "Unserved requests and unread replies of clients' connections.",
                            snapshot.held_octets));
  return families;
}

}  // namespace rdmabroker
