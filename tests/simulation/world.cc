// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/core/testing/text.h"
#include "broker/core/testing/unacknowledged.h"

namespace rdmabroker {
namespace {

constexpr size_t kBrokers = 3;
constexpr size_t kClientsOfEach = 3;

// Small enough that every limit is met.
Limits SmallLimits() {
  Limits limits;
  limits.sessions_per_uid = 2;
  limits.a_turn = {.closes = 1, .drops = 1, .ends = 1, .timeouts = 1};
  limits.adapters_per_session = 4;
  limits.listeners_per_session = 4;
  limits.shared_endpoints_per_session = 3;
  limits.reservations_per_session = 3;
  limits.connectors_per_session = 12;
  limits.answers_kept = 12;
  limits.events_kept = 40;
  limits.backlog = 3;
  limits.first_ephemeral_port = 49152;
  limits.last_ephemeral_port = 49156;
  return limits;
}

IpAddress Ip(const std::string& text) { return *IpAddress::Parse(text); }

}  // namespace

World::World(const Simulation& simulation)
    : simulation_(simulation), dice_(simulation.seed), limits_(SmallLimits()), surroundings_{dice_, limits_, {}} {
  network_.OnBreach([this](const std::string& what) { Fail(what); });
  loss_ = dice_.Percent(40) ? 0 : dice_.Below(60);
  doubling_ = dice_.Percent(40) ? 0 : dice_.Below(60);
  disturbance_ = dice_.Percent(20) ? 5 : 20 + dice_.Below(200);
  brokers_.resize(kBrokers);
  clients_.resize(kBrokers * kClientsOfEach);
  for (size_t i = 0; i < kBrokers; ++i) {
    brokers_[i].index = i;
    StartBroker(brokers_[i]);
  }
  for (size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].broker = i % kBrokers;
    StartClient(clients_[i]);
  }
}

World::~World() {
  for (Client& client : clients_) client.model.reset();
}

// Each host has a device in each port space; what else they are is the seed's choice.
void World::StartBroker(Broker& broker) {
  ++broker.life;
  broker.devices.clear();
  broker.gone.assign(2, false);
  broker.named.clear();
  for (const PortSpace port_space : {PortSpace::kRdmaCm, PortSpace::kTcp}) {
    const bool tcp = port_space == PortSpace::kTcp;
    const std::string place = absl::StrCat(broker.index + 1, ".", tcp ? 2 : 1);
    FakeDevice fake;
    fake.device = MakeFakeDevice(
        DeviceId(++last_device_ % 30000 + 1), tcp ? "iwarp0" : "rxe0", broker.index + 1,
        {Ip("10.0." + place), Ip("10.1." + place), Ip(absl::StrCat("2001:db8::", broker.index + 1, ":", tcp ? 2 : 1))});
    fake.device.port_space = port_space;
    fake.device.client_ends_connections = tcp && dice_.Percent(60);
    fake.three_way = dice_.Percent(tcp ? 50 : 90);
    fake.pads_private_data = dice_.Percent(30);
    fake.releases_gracefully = dice_.Percent(60);
    fake.reports_abandonment = dice_.Percent(60);
    fake.releases_slowly = dice_.Percent(15);
    broker.named[fake.device.name] = fake.device;
    broker.devices.push_back(std::move(fake));
  }
  broker.core = std::make_unique<BrokerCore>(limits_, 0, simulation_.seed + 1);
  broker.observer = std::make_unique<Observer>(limits_);
  broker.shadow = std::make_unique<Shadow>(*broker.core);
  Keep(broker, {.all = true});
  broker.fabric = std::make_unique<FakeFabric>(network_, broker.devices);
  broker.fabric->OnTransportEnd([this, &broker](ConnectionId transport, bool) {
    for (Client& client : clients_) {
      if (client.broker == broker.index && client.model->OnTransportEnd(transport)) return;
    }
  });
  broker.fabric->Start([this, &broker](FabricReport report) { Handle(broker, std::move(report)); });
}

void World::StartClient(Client& client) {
  Broker& broker = brokers_[client.broker];
  client.model = std::make_unique<ModelClient>(surroundings_, broker.named, *broker.fabric);
  client.stream.clear();
  client.model->identity = {static_cast<uint32_t>(1000 + dice_.Below(2)), 100,
                            static_cast<int32_t>(dice_.Percent(20) ? 0 : 1 + dice_.Below(30000))};
  client.model->secret[0] = static_cast<uint8_t>(1 + dice_.Below(255));
}

void World::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InternalError(absl::StrCat("event ", events_, ": ", what));
}

void World::Handle(Broker& broker, const Event& event) {
  if (!status_.ok()) return;
  if (simulation_.deaths > 0 && events_ < simulation_.events && dice_.Permille(simulation_.deaths)) {
    return Die(broker, event);
  }
  for (const Effect& effect : HandleAlive(broker, event)) Route(broker, effect);
}

// Before what comes of the event is kept, or after it, with so much of it carried out.
void World::Die(Broker& broker, const Event& event) {
  if (dice_.Percent(60)) {
    const Effects effects = HandleAlive(broker, event);
    const uint64_t carried = dice_.Below(effects.size() + 1);
    for (uint64_t i = 0; i < carried; ++i) Route(broker, effects[i]);
  }
  GoOn(broker);
}

// Another process does, with the records of the one before, its devices and its clients.
void World::GoOn(Broker& broker) {
  absl::StatusOr<Records> found = simulation_.find ? simulation_.find(broker.index) : broker.core->records();
  auto restored = found.ok() ? BrokerCore::Restore(limits_, *std::move(found)) : found.status();
  if (!restored.ok()) {
    return Fail(absl::StrCat("broker ", broker.index + 1, " cannot be restored: ", restored.status().message()));
  }
  *broker.core = *std::move(restored);
  broker.shadow->Adopt(*broker.core);
  for (Client& client : clients_) {
    if (client.broker != broker.index || client.model == nullptr) continue;
    client.model->stream = {};
    client.stream.clear();
  }
  Keep(broker, {.all = true});
  broker.fabric->GoOnAsAnother();
  // It may not live long.
  Handle(broker, Recover{});
}

Effects World::HandleAlive(Broker& broker, const Event& event) {
  ++events_;
  coverage_.Count(event);
  const bool restart = simulation_.restart == Restart::kAlways ||
                       (simulation_.restart == Restart::kSometimes && events_ % 16 == simulation_.seed % 16);
  const Effects effects = restart ? HandleRestored(broker, event) : broker.core->Handle(now_, event);
  for (const Effect& effect : effects) coverage_.Count(effect);
  if (simulation_.trace) Trace(broker, event, effects);
  if (const absl::Status kept = broker.observer->Observe(event, effects, broker.core->records()); !kept.ok()) {
    Fail(absl::StrCat("broker ", broker.index + 1, ": ", kept.message()));
  }
  if (const absl::Status followed = broker.shadow->Follow(*broker.core); !followed.ok()) {
    Fail(absl::StrCat("broker ", broker.index + 1, ": ", followed.message()));
  }
  Keep(broker, broker.shadow->changes());
  if (++broker.since_check >= simulation_.check_every) {
    broker.since_check = 0;
    CheckInvariants(broker);
  }
  Note(broker, event, effects);
  return effects;
}

// The core goes on as another one that was made from its records: nobody may see a difference.
Effects World::HandleRestored(Broker& broker, const Event& event) {
  auto restored = BrokerCore::Restore(limits_, broker.core->records());
  if (!restored.ok()) {
    Fail(absl::StrCat("broker ", broker.index + 1, " cannot be restored: ", restored.status().message()));
    return {};
  }
  broker.shadow->Adopt(*restored);
  const Effects expected = broker.core->Handle(now_, event);
  Effects effects = restored->Handle(now_, event);
  if (effects != expected) Fail(absl::StrCat("broker ", broker.index + 1, ": its restored core has other effects"));
  if (restored->records() != broker.core->records()) {
    Fail(absl::StrCat("broker ", broker.index + 1, ": its restored core has other records"));
  }
  *broker.core = *std::move(restored);
  return effects;
}

void World::CheckInvariants(const Broker& broker) {
  const absl::Status held = broker.core->CheckInvariants();
  if (!held.ok()) Fail(absl::StrCat("broker ", broker.index + 1, ": ", held.message()));
}

void World::Keep(const Broker& broker, const Changes& changes) {
  if (!simulation_.keep) return;
  const absl::Status kept = simulation_.keep(broker.index, *broker.core, changes);
  if (!kept.ok()) Fail(absl::StrCat("broker ", broker.index + 1, ": ", kept.message()));
}

void World::Route(Broker& broker, const Effect& effect) {
  if (const auto* request = std::get_if<FabricRequest>(&effect)) return broker.fabric->Perform(*request);
  const auto client_of = [&](SessionId session) {
    return std::find_if(clients_.begin(), clients_.end(), [&](const Client& client) {
      return client.broker == broker.index && client.model->session == session;
    });
  };
  if (const auto* opened = std::get_if<SessionOpened>(&effect)) {
    const auto joining = joining_.extract(opened->stream);
    if (!joining.empty()) Joined(clients_[joining.mapped()], broker.core->records().sessions.at(opened->session));
  } else if (const auto* refused = std::get_if<SessionRefused>(&effect)) {
    if (const auto joining = joining_.extract(refused->stream); !joining.empty()) {
      clients_[joining.mapped()].model->Forget();
    }
  } else if (const auto* answer = std::get_if<Answer>(&effect)) {
    const auto client = client_of(answer->session);
    if (client != clients_.end()) Post(static_cast<size_t>(client - clients_.begin()), *answer);
  } else if (const auto* numbered = std::get_if<NumberedEvent>(&effect)) {
    if (!numbered->stream) return;
    const auto client = client_of(numbered->session);
    if (client != clients_.end() && client->model->stream == numbered->stream) client->stream.push_back(*numbered);
  } else if (const auto* ended = std::get_if<SessionEnded>(&effect)) {
    const auto client = client_of(ended->session);
    // A client that is away is told when it comes back.
    if (client == clients_.end() || !ended->stream) return;
    client->stream.clear();
    client->model->Forget();
  }
}

void World::Joined(Client& client, const SessionRecord& session) {
  client.model->session = session.id;
  client.model->stream = session.stream;
  const auto kept = Unacknowledged(session);
  client.stream.insert(client.stream.end(), kept.begin(), kept.end());
}

// --- Both ends of a connection ---

void World::Note(Broker& broker, const Event& event, const Effects& effects) {
  const auto key = [&](ConnectionId connection) { return ConnectionKey{broker.index, broker.life, connection}; };
  if (const auto* report = std::get_if<FabricReport>(&event)) {
    if (const auto* requested = std::get_if<FabricConnectRequested>(report)) {
      tokens_[key(requested->connection)] = TokenIn(requested->private_data);
    } else if (const auto* established = std::get_if<FabricEstablished>(report)) {
      NoteEstablished(broker, established->connection, effects);
    } else if (const auto* released = std::get_if<FabricReleased>(report)) {
      tokens_.erase(key(released->connection));
      limits_of_.erase(key(released->connection));
      told_.erase(key(released->connection));
    }
  }
  for (const Effect& effect : effects) {
    const auto* request = std::get_if<FabricRequest>(&effect);
    if (request == nullptr) continue;
    if (const auto* connect = std::get_if<FabricConnect>(request)) {
      tokens_[key(connect->connection)] = TokenIn(connect->private_data);
    } else if (const auto* accept = std::get_if<FabricAccept>(request)) {
      limits_of_[key(accept->connection)] = accept->limits;
    } else if (const auto* complete = std::get_if<FabricComplete>(request)) {
      limits_of_[key(complete->connection)] = complete->limits;
    }
  }
}

void World::NoteEstablished(Broker& broker, ConnectionId connection, const Effects& effects) {
  const ConnectionKey key{broker.index, broker.life, connection};
  // A fabric whose broker has died may say it again.
  if (!told_.insert(key).second) return;
  const ReadLimits limits = limits_of_[key];
  for (const Effect& effect : effects) {
    const auto* numbered = std::get_if<NumberedEvent>(&effect);
    const auto* outcome = numbered == nullptr ? nullptr : std::get_if<OutcomeEvent>(&numbered->event);
    const auto* told = outcome == nullptr ? nullptr : std::get_if<ConnectionEstablished>(&outcome->outcome.payload);
    if (told != nullptr && told->limits != limits) Fail("the client is told other read limits than the fabric");
  }
  const uint64_t token = tokens_[key];
  if (token == 0) return;
  const auto [other, first] = established_.try_emplace(token, limits);
  if (first) return;
  ++pairs_;
  if (other->second.inbound != limits.outbound || other->second.outbound != limits.inbound) {
    Fail(absl::StrCat("attempt ", token, ": one end has read limits ", other->second.inbound, "/",
                      other->second.outbound, ", the other ", limits.inbound, "/", limits.outbound));
  }
  established_.erase(other);
}

void World::Trace(const Broker& broker, const Event& event, const Effects& effects) {
  trace_.push_back(absl::StrCat(events_, " at ", absl::ToDoubleSeconds(now_ - absl::UnixEpoch()), " s, broker ",
                                broker.index + 1, ": ", ToText(event)));
  for (const Effect& effect : effects) trace_.push_back(absl::StrCat("    ", ToText(effect)));
}

// --- Time ---

absl::Time World::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Broker& broker : brokers_) next = std::min(next, broker.core->NextDeadline());
  return next;
}

void World::AdvanceTo(absl::Time now) {
  now_ = std::max(now_, now);
  for (Broker& broker : brokers_) {
    if (broker.core->NextDeadline() <= now_) Handle(broker, DeadlineReached{});
  }
}

// --- Between clients and brokers ---

void World::Post(size_t client, std::variant<ClientRequest, Answer> content) {
  letters_.push_back({client, brokers_[clients_[client].broker].life, std::move(content)});
}

void World::DeliverLetter(size_t index) {
  const Letter letter = std::move(letters_[index]);
  letters_[index] = std::move(letters_.back());
  letters_.pop_back();
  Client& client = clients_[letter.client];
  Broker& broker = brokers_[client.broker];
  if (letter.broker_life != broker.life) return;
  if (const auto* request = std::get_if<ClientRequest>(&letter.content)) return Handle(broker, *request);
  client.model->On(std::get<Answer>(letter.content));
}

void World::DeliverStream(Client& client) {
  if (client.stream.empty()) return;
  const NumberedEvent event = std::move(client.stream.front());
  client.stream.pop_front();
  client.model->On(event);
}

void World::Join(size_t index) {
  Client& client = clients_[index];
  ModelClient& model = *client.model;
  Broker& broker = brokers_[client.broker];
  const StreamId stream(++last_stream_);
  joining_[stream] = index;
  client.stream.clear();
  if (model.session) {
    Handle(broker,
           ResumeSession{stream, model.session, model.identity, model.secret, model.seen(), AddressNews::kOfAll});
  } else {
    Handle(broker, OpenSession{stream, model.identity, model.secret, AddressNews::kOfAll});
  }
  joining_.erase(stream);
}

}  // namespace rdmabroker
