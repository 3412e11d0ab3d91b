// SPDX-License-Identifier: Apache-2.0

// What happens to a World: a step by chance, and how it comes to rest.

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace rdmabroker {
namespace {

// Steps that do nothing, because nothing is there to deliver, do not count as events; this many of them for each event
// mean that the world has died.
constexpr uint64_t kStepsPerEvent = 200;
// A round delivers whatever is on its way; each deadline and each close takes one or two.
constexpr int kRounds = 600;

// What a planted fault fails with: what NDKPI's functions may.
constexpr NdkStatus kBindFaults[] = {NdkStatus::kInsufficientResources, NdkStatus::kSharingViolation,
                                     NdkStatus::kAccessDenied, NdkStatus::kInvalidAddress};
constexpr NdkStatus kConnectFaults[] = {NdkStatus::kNetworkUnreachable, NdkStatus::kHostUnreachable,
                                        NdkStatus::kConnectionRefused,  NdkStatus::kIoTimeout,
                                        NdkStatus::kUnsuccessful,       NdkStatus::kAddressAlreadyExists};
constexpr NdkStatus kEstablishFaults[] = {NdkStatus::kConnectionAborted, NdkStatus::kIoTimeout,
                                          NdkStatus::kAccessDenied};

// As far as the broker knows of the device yet.
bool IsDisabled(const Records& records, DeviceId id) {
  const auto device = records.devices.find(id);
  return device != records.devices.end() && device->second.disabled;
}

}  // namespace

absl::Status World::Run() {
  for (uint64_t steps = 0; events_ < simulation_.events && steps < kStepsPerEvent * simulation_.events; ++steps) {
    Step();
    if (!status_.ok()) return status_;
  }
  if (events_ < simulation_.events) Fail("nothing happens any more");
  StopFaults();
  CloseEverything();
  ExpectNothingLeft();
  return status_;
}

// What can be delivered goes first, so that the faults and the time meet connections and not an empty world.
void World::Step() {
  const bool streams =
      std::any_of(clients_.begin(), clients_.end(), [](const Client& client) { return !client.stream.empty(); });
  const uint64_t weights[] = {network_.deliverable() == 0 ? 0u : 3500u,
                              letters_.empty() ? 0u : 3000u,
                              streams ? 1500u : 0u,
                              1600u,
                              60u,
                              disturbance_};
  uint64_t choice = dice_.Below(std::accumulate(std::begin(weights), std::end(weights), uint64_t{0}));
  size_t which = 0;
  while (choice >= weights[which]) choice -= weights[which++];
  switch (which) {
    case 0:
      return StepNetwork();
    case 1:
      return StepLetters();
    case 2:
      return DeliverStream(clients_[dice_.Below(clients_.size())]);
    case 3:
      return StepClient(dice_.Below(clients_.size()));
    case 4:
      return StepTime();
    default:
      return Disturb();
  }
}

void World::StepClient(size_t index) {
  ModelClient& model = *clients_[index].model;
  if (!model.session || !model.stream) {
    if (dice_.Percent(20)) Join(index);
    return;
  }
  if (const auto request = dice_.Percent(95) ? model.Ask() : model.Repeat()) Post(index, *request);
}

void World::StepNetwork() {
  if (network_.deliverable() == 0) return;
  const size_t index = dice_.Percent(60) ? 0 : dice_.Below(network_.deliverable());
  if (network_.IsMessage(index)) {
    if (dice_.Permille(loss_)) return network_.Drop(index);
    if (dice_.Permille(doubling_)) network_.Duplicate(index);
  }
  network_.Deliver(index);
}

void World::StepLetters() {
  if (letters_.empty()) return;
  const size_t index = dice_.Below(letters_.size());
  if (dice_.Permille(loss_)) {
    letters_[index] = std::move(letters_.back());
    letters_.pop_back();
    return;
  }
  if (dice_.Permille(doubling_)) letters_.push_back(Letter(letters_[index]));
  DeliverLetter(index);
}

void World::StepTime() {
  const uint64_t choice = dice_.Below(100);
  if (choice < 90) return AdvanceTo(now_ + absl::Milliseconds(1 + static_cast<int64_t>(dice_.Below(400))));
  if (choice < 95) return AdvanceTo(std::min(NextDeadline(), now_ + absl::Minutes(2)));
  if (choice < 96) return AdvanceTo(now_ + absl::Seconds(61));
  Handle(brokers_[dice_.Below(brokers_.size())], DeadlineReached{});
}

void World::Disturb() {
  const uint64_t choice = dice_.Below(100);
  if (choice < 40) return StepSession();
  if (choice < 75) return StepNetworkFaults();
  if (choice < 98) return StepDevices();
  EndBroker(brokers_[dice_.Below(brokers_.size())]);
}

// Clients and their streams.
void World::StepSession() {
  const size_t index = dice_.Below(clients_.size());
  Client& client = clients_[index];
  ModelClient& model = *client.model;
  Broker& broker = brokers_[client.broker];
  const SessionId session = dice_.Percent(90) ? model.session : SessionId(dice_.Below(20));
  const uint64_t choice = dice_.Below(100);
  if (choice < 35) {
    // The broker ends the stream, or takes a late word of one that it has ended for it.
    const StreamId stream = dice_.Percent(90) ? model.stream : StreamId(dice_.Below(last_stream_ + 1));
    if (!session || !stream) return;
    if (session == model.session && stream == model.stream) {
      model.stream = {};
      client.stream.clear();
    }
    return Handle(broker, StreamLost{session, stream, StreamEnd::kBroker});
  }
  if (choice < 60) {
    if (!model.session) return;
    const StreamLost lost{model.session, model.stream, StreamEnd::kClient};
    model.Forget();
    client.stream.clear();
    if (lost.stream) Handle(broker, lost);
    return StartClient(client);
  }
  if (choice < 68) {
    if (session) Handle(broker, EndSession{session});
    return;
  }
  if (choice < 90) {
    const uint64_t beyond = dice_.Percent(90) ? 0 : 100000;  // No event has that number.
    if (session) Handle(broker, AcknowledgeEvents{session, EventNumber(model.seen().value() + beyond)});
    return;
  }
  // Somebody else's session, or a secret that is none.
  ResumeSession resume{StreamId(++last_stream_), session, model.identity, model.secret, model.seen(),
                       AddressNews::kOfAll};
  if (dice_.Percent(60)) {
    resume.secret[0] ^= 1;
  } else if (dice_.Percent(50)) {
    resume.acknowledged = EventNumber(resume.acknowledged.value() + 100000);
  } else if (session == model.session) {
    // A second stream of the same client, which takes the first one's place.
    return model.session ? Join(index) : void();
  } else {
    resume.identity.uid += 1;
  }
  if (session) Handle(broker, resume);
}

void World::StepDevices() {
  Broker& broker = brokers_[dice_.Below(brokers_.size())];
  const size_t index = dice_.Below(broker.devices.size());
  FakeDevice& fake = broker.devices[index];
  Device& device = fake.device;
  const uint64_t choice = dice_.Below(100);
  if (broker.gone[index]) {
    if (choice >= 40) return;
    device.id = DeviceId(++last_device_ % 30000 + 1);
    broker.gone[index] = false;
    broker.fabric->AddDevice(fake);
    broker.named[device.name] = device;
    return;
  }
  if (choice < 25) {
    const IpAddress ip =
        *IpAddress::Parse(absl::StrCat("10.", 2 + dice_.Below(2), ".", broker.index + 1, ".", index + 1));
    const auto found = std::find(device.addresses.begin(), device.addresses.end(), ip);
    if (found == device.addresses.end()) {
      device.addresses.push_back(ip);
      std::sort(device.addresses.begin(), device.addresses.end());
    } else {
      device.addresses.erase(found);
    }
    broker.fabric->SetAddresses(device.id, device.addresses);
    broker.named[device.name] = device;
  } else if (choice < 29) {
    broker.gone[index] = true;
    broker.fabric->RemoveDevice(device.id);
  } else if (const bool disabled = IsDisabled(broker.core->records(), device.id); choice < 31 || disabled) {
    Handle(broker, disabled ? Event(EnableDevice{device.id}) : Event(DisableDevice{device.id}));
  } else if (choice < 33 || !device.unusable_reason.empty()) {
    device.unusable_reason = device.unusable_reason.empty() ? "its cable is out" : "";
    broker.fabric->SetUnusable(device.id, device.unusable_reason);
  } else if (choice < 65) {
    broker.fabric->FinishReleases(device.id);
  } else if (choice < 75) {
    const auto step = dice_.Percent(60) ? FakeFabric::Step::kBind : FakeFabric::Step::kRepurpose;
    broker.fabric->FailNext(device.id, step, {kBindFaults[dice_.Below(std::size(kBindFaults))], 12});
  } else if (choice < 88) {
    broker.fabric->FailNext(device.id, FakeFabric::Step::kConnect,
                            {kConnectFaults[dice_.Below(std::size(kConnectFaults))], 13, dice_.Percent(50)});
  } else {
    const FakeFabric::Step steps[] = {FakeFabric::Step::kComplete, FakeFabric::Step::kAccept,
                                      FakeFabric::Step::kDisconnect};
    broker.fabric->FailNext(device.id, steps[dice_.Below(3)],
                            {kEstablishFaults[dice_.Below(std::size(kEstablishFaults))], 14});
  }
}

void World::StepNetworkFaults() {
  Broker& broker = brokers_[dice_.Below(brokers_.size())];
  const HostId one = broker.fabric->host();
  const HostId other = brokers_[dice_.Below(brokers_.size())].fabric->host();
  const Device& device = dice_.Of(broker.devices).device;
  const IpAddress ip = dice_.Of(device.addresses);
  const uint16_t port = static_cast<uint16_t>(dice_.Percent(50) ? 4420 + dice_.Below(4) : 49152 + dice_.Below(5));
  const PortClaim claim{device.network_namespace, device.port_space, {ip, port}};
  switch (dice_.Below(9)) {
    case 0:
      if (dice_.Percent(50)) network_.Partition(one, other);
      return;
    case 1:
    case 2:
      for (const Broker& any : brokers_) network_.Rejoin(one, any.fabric->host());
      return;
    case 3:
      network_.Occupy(claim);
      return;
    case 4:
    case 5:
      return network_.Vacate(claim);
    case 6:
      return network_.SetSilent(ip, dice_.Percent(20));
    default:
      if (dice_.Percent(80)) return network_.SetUnreachable(ip, std::nullopt);
      return network_.SetUnreachable(ip,
                                     dice_.Percent(50) ? NdkStatus::kNetworkUnreachable : NdkStatus::kHostUnreachable);
  }
}

// The broker's process ends and its clients' sessions with it, or its whole machine loses its power.
void World::EndBroker(Broker& broker) {
  if (dice_.Percent(30)) network_.Kill(broker.fabric->host());
  for (Client& client : clients_) {
    if (client.broker == broker.index) client.model.reset();
  }
  broker.fabric.reset();
  StartBroker(broker);
  for (Client& client : clients_) {
    if (client.broker == broker.index) StartClient(client);
  }
}

// --- Coming to rest ---

void World::StopFaults() {
  loss_ = doubling_ = 0;
  surroundings_.calm = true;
  for (Broker& broker : brokers_) {
    for (const Broker& other : brokers_) network_.Rejoin(broker.fabric->host(), other.fabric->host());
    for (size_t i = 0; i < broker.devices.size(); ++i) {
      const Device& device = broker.devices[i].device;
      for (const IpAddress& ip : device.addresses) {
        network_.SetSilent(ip, false);
        network_.SetUnreachable(ip, std::nullopt);
      }
    }
  }
}

// Delivers what is on its way and repeats what was lost, until nothing moves. False where it never ends.
bool World::Settle() {
  for (int round = 0; round < kRounds && status_.ok(); ++round) {
    bool moved = network_.DeliverAll() > 0;
    while (!letters_.empty()) {
      DeliverLetter(letters_.size() - 1);
      moved = true;
    }
    for (size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if (client.model->session && !client.model->stream) Join(i);
      moved = moved || !client.stream.empty();
      while (!client.stream.empty()) DeliverStream(client);
      if (const auto request = client.model->Repeat()) {
        Post(i, *request);
        moved = true;
      }
    }
    for (Broker& broker : brokers_) {
      for (const FakeDevice& fake : broker.devices) broker.fabric->FinishReleases(fake.device.id);
    }
    if (moved) continue;
    if (NextDeadline() == absl::InfiniteFuture()) return true;
    AdvanceTo(NextDeadline());
  }
  return false;
}

void World::CloseEverything() {
  if (!Settle()) Fail("what was begun does not come to an end");
  for (int round = 0; round < kRounds && status_.ok(); ++round) {
    bool asked = false;
    for (size_t i = 0; i < clients_.size(); ++i) {
      // Every other client closes its objects; the rest just exits.
      if (i % 2 == 0) continue;
      while (const auto request = clients_[i].model->Close()) {
        Handle(brokers_[clients_[i].broker], *request);
        asked = true;
      }
    }
    if (!Settle()) Fail("what is being closed does not come to an end");
    if (!asked) break;
  }
  for (size_t i = 0; i < clients_.size() && status_.ok(); ++i) {
    ModelClient& model = *clients_[i].model;
    if (i % 2 == 1 && !model.IsQuiet()) Fail(absl::StrCat("a request has no outcome: ", model.Describe()));
    if (i % 2 == 1 && !model.HasNothing()) Fail(absl::StrCat("something cannot be closed: ", model.Describe()));
    if (!model.session) continue;
    const StreamLost lost{model.session, model.stream, StreamEnd::kClient};
    model.Forget();
    Handle(brokers_[clients_[i].broker], lost);
  }
  if (!Settle()) Fail("what ended sessions leave does not come to an end");
}

void World::ExpectNothingLeft() {
  for (Broker& broker : brokers_) {
    CheckInvariants(broker);
    const Records& records = broker.core->records();
    const std::pair<const char*, size_t> left[] = {{"sessions", records.sessions.size()},
                                                   {"adapters", records.adapters.size()},
                                                   {"listeners", records.listeners.size()},
                                                   {"shared endpoints", records.shared_endpoints.size()},
                                                   {"reservations", records.reservations.size()},
                                                   {"connectors", records.connectors.size()},
                                                   {"endpoints", records.endpoints.size()},
                                                   {"connections", records.connections.size()},
                                                   {"endpoints of the fabric", broker.fabric->endpoints()},
                                                   {"connections of the fabric", broker.fabric->connections()},
                                                   {"transports", broker.fabric->transports()}};
    for (const auto& [what, count] : left) {
      if (count != 0) Fail(absl::StrCat("broker ", broker.index + 1, ": ", count, " ", what, " are left"));
    }
  }
}

}  // namespace rdmabroker
