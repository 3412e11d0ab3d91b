// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/core_population.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include "broker/fabric/fake/fake_fabric.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kConnectorsPerSession = 100;
constexpr DeviceId kDevice{1};
// So many that the ephemeral ports of each stay mostly free at the largest population.
constexpr uint8_t kAddresses = 8;

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "the core did not do as expected: %s\n", what);
  std::exit(1);
}

IpAddress LocalAddress(size_t index) { return {.bytes = {192, 0, 2, static_cast<uint8_t>(1 + index % kAddresses)}}; }

// One for each slot.
SocketAddress PeerAddress(size_t index) {
  const IpAddress ip = {.bytes = {198, 18, static_cast<uint8_t>(index >> 8), static_cast<uint8_t>(index)}};
  return {ip, static_cast<uint16_t>(1024 + (index >> 16))};
}

}  // namespace

CorePopulation::CorePopulation(size_t connectors)
    : core_({.endpoints_per_uid = 1'000'000, .objects_per_uid = 1'000'000, .kept_bytes_per_uid = uint64_t{1} << 40}),
      now_(absl::UnixEpoch()) {
  std::vector<IpAddress> addresses;
  for (size_t i = 0; i < kAddresses; ++i) addresses.push_back(LocalAddress(i));
  Run(FabricReport(DeviceChanged{MakeFakeDevice(kDevice, "fake0", 1, addresses)}));
  for (size_t i = 0; i < connectors; ++i) {
    if (i % kConnectorsPerSession == 0) AddClient();
    slots_.push_back({.kind = static_cast<Kind>(i % 3),
                      .client = clients_.size() - 1,
                      .peer = PeerAddress(i),
                      .qp = QpNumber{static_cast<uint32_t>(i + 2)}});
    Begin(slots_.back());
  }
  Require(core_.records().connectors.size() == connectors && core_.CheckInvariants().ok(), "the population");
}

void CorePopulation::AddClient() {
  const size_t index = clients_.size();
  Run(OpenSession{.stream = StreamId(index + 1), .identity = {.uid = 1, .gid = 1, .pid = 1}, .secret = {}});
  clients_.push_back({.session = session_});
  Client& client = clients_.back();
  Ask(index, OpenAdapter{"fake0", {2, 0}});
  client.adapter = adapter_;
  Ask(index, CreateListener{client.adapter});
  Ask(index, Listen{listener_, {LocalAddress(index), 0}, {}});
  client.listening = bound_;
  client.address = address_;
  Ask(index, CreateSharedEndpoint{client.adapter, {LocalAddress(index), 0}, {}});
  client.shared_endpoint = shared_endpoint_;
}

double CorePopulation::Churn(size_t events) {
  handled_ = 0;
  spent_ = {};
  while (handled_ < events) {
    Slot& slot = slots_[random_() % slots_.size()];
    End(slot);
    Begin(slot);
  }
  return std::chrono::duration<double, std::nano>(spent_).count() / static_cast<double>(handled_);
}

void CorePopulation::End(Slot& slot) {
  // Accepted connections are ended by their peers, the others by their client.
  if (slot.kind == Kind::kAccepted) Run(FabricReport(FabricDisconnected{slot.connection}));
  Ask(slot.client, Disconnect{slot.connector});
  Ask(slot.client, CloseConnector{slot.connector});
}

void CorePopulation::Begin(Slot& slot) {
  const Client& client = clients_[slot.client];
  if (slot.kind == Kind::kAccepted) {
    slot.connection = IncomingConnection(kDevice, ++last_incoming_);
    Run(FabricReport(FabricConnectRequested{
        .endpoint = client.listening, .connection = slot.connection, .local = client.address, .peer = slot.peer}));
    slot.connector = connector_;
    return Ask(slot.client, Accept{.connector = slot.connector, .qp = slot.qp});
  }
  Ask(slot.client, CreateConnector{client.adapter});
  slot.connector = connector_;
  if (slot.kind == Kind::kShared) {
    Ask(slot.client, ConnectWithSharedEndpoint{.connector = slot.connector,
                                               .qp = slot.qp,
                                               .shared_endpoint = client.shared_endpoint,
                                               .destination = slot.peer});
  } else {
    Ask(slot.client,
        Connect{
            .connector = slot.connector, .qp = slot.qp, .source = {client.address.ip, 0}, .destination = slot.peer});
  }
  slot.connection = connection_;
  Ask(slot.client, CompleteConnect{slot.connector});
}

void CorePopulation::Ask(size_t index, Request request) {
  Client& client = clients_[index];
  Run(ClientRequest{client.session, RequestId(++client.last_request), client.last_event, std::move(request)});
}

void CorePopulation::Run(const Event& event) {
  HandleOne(event);
  while (!reports_.empty()) {
    const Event report = std::move(reports_.front());
    reports_.pop_front();
    HandleOne(report);
  }
}

void CorePopulation::HandleOne(const Event& event) {
  now_ += absl::Microseconds(1);
  const auto start = std::chrono::steady_clock::now();
  const Effects effects = core_.Handle(now_, event);
  const Instant deadline = core_.NextDeadline();
  spent_ += std::chrono::steady_clock::now() - start;
  Require(deadline >= now_, "a deadline has passed");
  ++handled_;
  after_event_(core_);
  if (watching_) watching_(now_, event, effects);
  for (const Effect& effect : effects) Take(effect);
}

void CorePopulation::Take(const Effect& effect) {
  if (const auto* request = std::get_if<FabricRequest>(&effect)) return Answer(*request);
  if (const auto* opened = std::get_if<SessionOpened>(&effect)) session_ = opened->session;
  if (const auto* answer = std::get_if<rdmabroker::Answer>(&effect)) {
    const NdkStatus status = answer->outcome.status;
    if (status != NdkStatus::kSuccess && status != NdkStatus::kPending) {
      std::fprintf(stderr, "%s\n", answer->outcome.hint.c_str());
      Require(false, "an answer");
    }
    TakeAnswer(answer->outcome.payload);
  }
  if (const auto* event = std::get_if<NumberedEvent>(&effect)) {
    clients_[event->session.value() - 1].last_event = event->number;
    if (const auto* connect = std::get_if<ConnectEvent>(&event->event)) connector_ = connect->connector;
    if (const auto* outcome = std::get_if<OutcomeEvent>(&event->event)) {
      Require(outcome->outcome.status == NdkStatus::kSuccess, "an outcome");
      TakeAnswer(outcome->outcome.payload);
    }
  }
}

void CorePopulation::TakeAnswer(const Payload& payload) {
  if (const auto* adapter = std::get_if<AdapterOpened>(&payload)) adapter_ = adapter->adapter;
  if (const auto* listener = std::get_if<ListenerCreated>(&payload)) listener_ = listener->listener;
  if (const auto* listening = std::get_if<Listening>(&payload)) address_ = listening->address;
  if (const auto* shared = std::get_if<SharedEndpointCreated>(&payload)) shared_endpoint_ = shared->shared_endpoint;
  if (const auto* connector = std::get_if<ConnectorCreated>(&payload)) connector_ = connector->connector;
}

void CorePopulation::Answer(const FabricRequest& request) {
  if (const auto* bind = std::get_if<FabricBind>(&request)) {
    bound_ = bind->endpoint;
    reports_.push_back(FabricBound{bind->endpoint});
  } else if (const auto* unbind = std::get_if<FabricUnbind>(&request)) {
    reports_.push_back(FabricUnbound{unbind->endpoint});
  } else if (const auto* connect = std::get_if<FabricConnect>(&request)) {
    connection_ = connect->connection;
    reports_.push_back(FabricReplied{.connection = connect->connection});
  } else if (const auto* complete = std::get_if<FabricComplete>(&request)) {
    reports_.push_back(FabricEstablished{complete->connection, std::nullopt});
  } else if (const auto* accept = std::get_if<FabricAccept>(&request)) {
    reports_.push_back(FabricEstablished{accept->connection, std::nullopt});
  } else if (const auto* disconnect = std::get_if<FabricDisconnect>(&request)) {
    reports_.push_back(FabricDisconnected{disconnect->connection});
  } else if (const auto* release = std::get_if<FabricRelease>(&request)) {
    reports_.push_back(FabricReleased{release->connection});
  } else {
    Require(false, "a request to the fabric");
  }
}

}  // namespace rdmabroker::bench
