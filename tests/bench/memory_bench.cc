// SPDX-License-Identifier: Apache-2.0

// What an idle connector takes of memory: in the core, in the fake fabric and in the store. docs/benchmarks.md
// explains.

#include <malloc.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/broker_core.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/store/store.h"
#include "tests/bench/figures.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kConnectors = 100'000;
constexpr size_t kPairsPerSession = 50;
constexpr double kGoal = 4096;

constexpr DeviceId kDevice{1};
constexpr uint8_t kAddresses = 8;

// As long as those that the fabric of the kernel's devices keeps of an address and of an established connection
// (broker/fabric/rdmacm/records.proto). The fake fabric's memory outlives each process, so that it needs none.
constexpr size_t kEndpointRecord = 24;
constexpr size_t kConnectionRecord = 32;

IpAddress AddressOf(size_t client) { return {.bytes = {192, 0, 2, static_cast<uint8_t>(1 + client % kAddresses)}}; }

// A core over the fake fabric, with as many established connectors as asked for, a hundred in each session, and a store
// that is written as in service: change by change. Half of the connectors were accepted by the others' peers; of these
// every other one connected from an ephemeral port of its own, and the rest through their session's shared endpoint.
// What the core refuses ends the process.
class Population {
 public:
  Population(size_t connectors, Store& store);

  // Ends connections picked at random and makes new ones in their place until so many events have been handled.
  void Churn(size_t events);

  // It is good for nothing but its destruction then.
  void LoseFabric() {
    fabric_ = nullptr;
    network_ = nullptr;
  }

 private:
  struct Client {
    SessionId session;
    AdapterId adapter;
    SocketAddress listening;
    SharedEndpointId shared_endpoint;
    uint64_t last_request = 0;
    EventNumber last_event;
  };
  // Two connectors and what is between them. The first asks the second's listener, which no other of its session does:
  // a shared endpoint has one connection to each address.
  struct Pair {
    size_t active_client = 0;
    size_t passive_client = 0;
    bool shared = false;
    QpNumber active_qp;
    QpNumber passive_qp;
    ConnectorId active;
    ConnectorId passive;
  };

  void AddClient();
  void Begin(Pair& pair);
  void End(const Pair& pair);
  void Ask(size_t client, Request request);
  // One event, and all that follows from it.
  void Run(const Event& event);
  void HandleOne(const Event& event);
  void Take(const Effect& effect);
  void TakeAnswer(const Payload& payload);
  // As a fabric does that needs records.
  void KeepRecord(const FabricRequest& request);

  Store& store_;
  std::unique_ptr<FakeNetwork> network_ = std::make_unique<FakeNetwork>();
  std::unique_ptr<FakeFabric> fabric_;
  FabricRecords of_fabric_;
  BrokerCore core_;
  Instant now_ = absl::UnixEpoch();
  std::vector<Client> clients_;
  std::vector<Pair> pairs_;
  std::deque<FabricReport> reports_;
  std::mt19937_64 random_;
  size_t handled_ = 0;
  // What the last effects told.
  SessionId session_;
  AdapterId adapter_;
  ListenerId listener_;
  SharedEndpointId shared_endpoint_;
  ConnectorId connector_;
  SocketAddress address_;
};

Population::Population(size_t connectors, Store& store)
    : store_(store),
      core_({.endpoints_per_uid = 1'000'000, .objects_per_uid = 1'000'000, .kept_bytes_per_uid = uint64_t{1} << 40}) {
  std::vector<IpAddress> addresses;
  for (size_t i = 0; i < kAddresses; ++i) addresses.push_back(AddressOf(i));
  fabric_ = std::make_unique<FakeFabric>(
      *network_, std::vector<FakeDevice>{{.device = MakeFakeDevice(kDevice, "fake0", 1, addresses)}});
  fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
  const size_t sessions = connectors / (2 * kPairsPerSession);
  for (size_t i = 0; i < sessions; ++i) AddClient();
  for (size_t i = 0; i < connectors / 2; ++i) {
    const size_t active = i / kPairsPerSession;
    pairs_.push_back({.active_client = active,
                      .passive_client = (active + 1 + i % kPairsPerSession) % sessions,
                      .shared = i % 2 == 1,
                      .active_qp = QpNumber{static_cast<uint32_t>(2 * i + 2)},
                      .passive_qp = QpNumber{static_cast<uint32_t>(2 * i + 3)}});
    Begin(pairs_.back());
  }
  Require(core_.records().connectors.size() == connectors, "the connectors");
  Require(fabric_->connections() == connectors && of_fabric_.connections.size() == connectors, "the connections");
}

void Population::AddClient() {
  const size_t index = clients_.size();
  Run(OpenSession{.stream = StreamId(index + 1), .identity = {.uid = 1, .gid = 1, .pid = 1}, .secret = {}});
  clients_.push_back({.session = session_});
  Client& client = clients_.back();
  Ask(index, OpenAdapter{"fake0", {2, 0}});
  client.adapter = adapter_;
  Ask(index, CreateListener{client.adapter});
  Ask(index, Listen{listener_, {AddressOf(index), 0}, {}});
  client.listening = address_;
  Ask(index, CreateSharedEndpoint{client.adapter, {AddressOf(index), 0}, {}});
  client.shared_endpoint = shared_endpoint_;
}

void Population::Churn(size_t events) {
  handled_ = 0;
  while (handled_ < events) {
    Pair& pair = pairs_[random_() % pairs_.size()];
    End(pair);
    Begin(pair);
  }
}

void Population::Begin(Pair& pair) {
  const Client& client = clients_[pair.active_client];
  const SocketAddress destination = clients_[pair.passive_client].listening;
  Ask(pair.active_client, CreateConnector{client.adapter});
  pair.active = connector_;
  if (pair.shared) {
    Ask(pair.active_client, ConnectWithSharedEndpoint{.connector = pair.active,
                                                      .qp = pair.active_qp,
                                                      .shared_endpoint = client.shared_endpoint,
                                                      .destination = destination});
  } else {
    Ask(pair.active_client, Connect{.connector = pair.active,
                                    .qp = pair.active_qp,
                                    .source = {client.listening.ip, 0},
                                    .destination = destination});
  }
  pair.passive = connector_;
  Require(pair.passive != pair.active, "a connect event");
  Ask(pair.passive_client, Accept{.connector = pair.passive, .qp = pair.passive_qp});
  Ask(pair.active_client, CompleteConnect{pair.active});
}

void Population::End(const Pair& pair) {
  Ask(pair.active_client, Disconnect{pair.active});
  Ask(pair.passive_client, Disconnect{pair.passive});
  Ask(pair.active_client, CloseConnector{pair.active});
  Ask(pair.passive_client, CloseConnector{pair.passive});
}

void Population::Ask(size_t index, Request request) {
  Client& client = clients_[index];
  Run(ClientRequest{client.session, RequestId(++client.last_request), client.last_event, std::move(request)});
}

void Population::Run(const Event& event) {
  HandleOne(event);
  do {
    while (!reports_.empty()) {
      const Event report = std::move(reports_.front());
      reports_.pop_front();
      HandleOne(report);
    }
  } while (network_->DeliverNext());
}

void Population::HandleOne(const Event& event) {
  now_ += absl::Microseconds(1);
  const Effects effects = core_.Handle(now_, event);
  ++handled_;
  const Changes changes = core_.TakeChanges();
  Require(store_.Commit(core_.records(), changes, of_fabric_, TakeChanges(of_fabric_)).ok(), "a commit");
  for (const Effect& effect : effects) Take(effect);
}

void Population::Take(const Effect& effect) {
  if (const auto* request = std::get_if<FabricRequest>(&effect)) {
    KeepRecord(*request);
    fabric_->Perform(*request);
  } else if (const auto* opened = std::get_if<SessionOpened>(&effect)) {
    session_ = opened->session;
  } else if (const auto* answer = std::get_if<Answer>(&effect)) {
    const Outcome& outcome = answer->outcome;
    Require(outcome.status == NdkStatus::kSuccess || outcome.status == NdkStatus::kPending, outcome.hint);
    TakeAnswer(outcome.payload);
  } else if (const auto* event = std::get_if<NumberedEvent>(&effect)) {
    clients_[event->session.value() - 1].last_event = event->number;
    if (const auto* connect = std::get_if<ConnectEvent>(&event->event)) connector_ = connect->connector;
    if (const auto* ended = std::get_if<OutcomeEvent>(&event->event)) {
      Require(ended->outcome.status == NdkStatus::kSuccess, ended->outcome.hint);
      TakeAnswer(ended->outcome.payload);
    }
  }
}

void Population::TakeAnswer(const Payload& payload) {
  if (const auto* adapter = std::get_if<AdapterOpened>(&payload)) adapter_ = adapter->adapter;
  if (const auto* listener = std::get_if<ListenerCreated>(&payload)) listener_ = listener->listener;
  if (const auto* listening = std::get_if<Listening>(&payload)) address_ = listening->address;
  if (const auto* shared = std::get_if<SharedEndpointCreated>(&payload)) shared_endpoint_ = shared->shared_endpoint;
  if (const auto* connector = std::get_if<ConnectorCreated>(&payload)) connector_ = connector->connector;
}

void Population::KeepRecord(const FabricRequest& request) {
  const std::string of_endpoint(kEndpointRecord, 'e'), of_connection(kConnectionRecord, 'c');
  if (const auto* bind = std::get_if<FabricBind>(&request)) of_fabric_.endpoints[bind->endpoint] = of_endpoint;
  if (const auto* unbind = std::get_if<FabricUnbind>(&request)) of_fabric_.endpoints.erase(unbind->endpoint);
  if (const auto* connect = std::get_if<FabricConnect>(&request)) {
    of_fabric_.connections[connect->connection] = of_connection;
  }
  if (const auto* accept = std::get_if<FabricAccept>(&request)) {
    of_fabric_.connections[accept->connection] = of_connection;
  }
  if (const auto* release = std::get_if<FabricRelease>(&request)) of_fabric_.connections.erase(release->connection);
}

// What this process alone has of the memory, in bytes; files that it has mapped are left out.
size_t Resident() {
  constexpr std::string_view kKey = "RssAnon:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kKey, 0) == 0) return std::strtoul(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  }
  Fail("/proc/self/status");
}

// What of it is allocated.
size_t Allocated() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// What the file takes of its file system.
size_t SizeOf(const std::string& file) {
  struct stat found = {};
  Require(::stat(file.c_str(), &found) == 0, file);
  return static_cast<size_t>(found.st_blocks) * 512;
}

void Measure() {
  const size_t before = Resident();
  const MemoryFolder folder;
  const std::unique_ptr<Store> store = *Store::Open(folder.path(), "");
  Population population(kConnectors, *store);
  population.Churn(2 * kConnectors);
  const double process = static_cast<double>(Resident() - before) / kConnectors;
  const double file = static_cast<double>(SizeOf(folder.path() + "/records.mdb")) / kConnectors;
  const size_t allocated = Allocated();
  population.LoseFabric();
  const double fabric = static_cast<double>(allocated - Allocated()) / kConnectors;
  std::printf(
      "  bytes of each of %zu connectors: %.0f in the process, %.0f of them the fake fabric's;"
      " %.0f in the store's file\n",
      kConnectors, process, fabric, file);
  PrintRatio("memory, an idle connector with its share of the store / 4 KiB", (process + file) / kGoal,
             "goal: at most 1");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() {
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure();
}
