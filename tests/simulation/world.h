// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SIMULATION_WORLD_H_
#define TESTS_SIMULATION_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/core/broker_core.h"
#include "broker/core/changes.h"
#include "broker/core/state.h"
#include "broker/core/testing/observer.h"
#include "broker/core/testing/shadow.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/model_client.h"

namespace rdmabroker {

// Whether cores are taken apart and restored between two events.
enum class Restart : uint8_t { kNever, kSometimes, kAlways };

// Keeps a core's records as a store does: is told after each event what has changed; an error is a broken promise.
using Keeper = std::function<absl::Status(size_t broker, const BrokerCore& core, const Changes& changes)>;
// What another process finds of what was kept, to go on with.
using Finder = std::function<absl::StatusOr<Records>(size_t broker)>;

struct Simulation {
  uint64_t seed = 0;
  uint64_t events = 0;  // That the cores handle before the faults stop.
  Restart restart = Restart::kNever;
  uint64_t check_every = 1;  // Events between two checks of a core's invariants.
  uint64_t deaths = 0;       // Of a broker's process, in thousandths of the events.
  bool trace = false;
  Keeper keep;  // May be none.
  Finder find;  // Likewise: a broker's process goes on with the records that the one before had.
};

// Several brokers, each a core over a fake fabric, their clients, and everything that can go wrong around them. Chance
// alone decides what happens next; all of it comes from the seed.
class World {
 public:
  explicit World(const Simulation& simulation);
  ~World();

  // Disturbs for as many events as asked, then stops the faults and lets everybody finish and close. INTERNAL, naming
  // the first promise that was broken: an invariant, what the observer of each core watches over, the fabric's
  // contract, two ends of a connection that disagree on its read limits, something left when everything was closed.
  absl::Status Run();

  [[nodiscard]] const Coverage& coverage() const { return coverage_; }
  [[nodiscard]] uint64_t events() const { return events_; }
  [[nodiscard]] uint64_t pairs() const { return pairs_; }
  // Where it was asked for: what happened, the oldest first.
  [[nodiscard]] const std::vector<std::string>& trace() const { return trace_; }

 private:
  struct Broker {
    size_t index = 0;
    uint64_t life = 0;
    std::unique_ptr<BrokerCore> core;
    std::unique_ptr<FakeFabric> fabric;
    std::unique_ptr<Observer> observer;
    std::unique_ptr<Shadow> shadow;
    std::vector<FakeDevice> devices;      // As they are now; also those that are gone.
    std::vector<bool> gone;               // By device.
    std::map<std::string, Device> named;  // What its clients know.
    uint64_t since_check = 0;
  };
  struct Client {
    size_t broker = 0;
    std::unique_ptr<ModelClient> model;
    std::deque<NumberedEvent> stream;  // On its way to the client.
  };
  // On its way to or from a client.
  struct Letter {
    size_t client = 0;
    uint64_t broker_life = 0;
    std::variant<ClientRequest, Answer> content;
  };
  using ConnectionKey = std::tuple<size_t, uint64_t, ConnectionId>;  // Broker, its life.

  // --- world.cc ---
  void StartBroker(Broker& broker);
  void StartClient(Client& client);
  void Fail(const std::string& what);
  void Handle(Broker& broker, const Event& event);
  void Die(Broker& broker, const Event& event);
  void GoOn(Broker& broker);
  Effects HandleAlive(Broker& broker, const Event& event);
  Effects HandleRestored(Broker& broker, const Event& event);
  void CheckInvariants(const Broker& broker);
  void Keep(const Broker& broker, const Changes& changes);
  void Route(Broker& broker, const Effect& effect);
  void Note(Broker& broker, const Event& event, const Effects& effects);
  void NoteEstablished(Broker& broker, ConnectionId connection, const Effects& effects);
  void Trace(const Broker& broker, const Event& event, const Effects& effects);
  void AdvanceTo(absl::Time now);
  absl::Time NextDeadline() const;
  void Post(size_t client, std::variant<ClientRequest, Answer> content);
  void DeliverLetter(size_t index);
  void DeliverStream(Client& client);
  void Join(size_t client);
  void Joined(Client& client, const SessionRecord& session);

  // --- disturbances.cc ---
  void Step();
  void StepClient(size_t index);
  void StepNetwork();
  void StepLetters();
  void StepTime();
  void StepSession();
  void StepDevices();
  void StepNetworkFaults();
  void Disturb();
  void EndBroker(Broker& broker);
  void StopFaults();
  bool Settle();
  void CloseEverything();
  void ExpectNothingLeft();

  const Simulation simulation_;
  Dice dice_;
  Limits limits_;
  Surroundings surroundings_;
  FakeNetwork network_;
  std::vector<Broker> brokers_;
  std::vector<Client> clients_;
  std::vector<Letter> letters_;
  std::map<StreamId, size_t> joining_;  // Clients whose stream has no session yet.
  absl::Time now_ = absl::UnixEpoch();
  uint64_t last_stream_ = 0;
  uint64_t last_device_ = 0;
  uint64_t events_ = 0;
  absl::Status status_;
  Coverage coverage_;
  std::vector<std::string> trace_;
  // Chosen anew by each seed: some lose much, some nothing. In thousandths of the messages.
  uint64_t loss_ = 0;
  uint64_t doubling_ = 0;
  uint64_t disturbance_ = 0;  // A weight; see Step.
  std::map<ConnectionKey, uint64_t> tokens_;
  std::map<ConnectionKey, ReadLimits> limits_of_;
  std::map<uint64_t, ReadLimits> established_;  // By token; the end that was first.
  std::set<ConnectionKey> told_;                // That their establishment has been reported.
  uint64_t pairs_ = 0;
};

}  // namespace rdmabroker

#endif  // TESTS_SIMULATION_WORLD_H_
