// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_WORLD_H_
#define TESTS_CONFORMANCE_NDKPI_WORLD_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "tests/conformance/ndkpi/case.h"
#include "tests/conformance/ndkpi/party.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker::ndkpi {

// A connection as both of its ends have it.
struct Connection {
  std::shared_ptr<client::Connector> active;
  std::shared_ptr<client::Connector> passive;
  QueuePair* active_qp = nullptr;
  QueuePair* passive_qp = nullptr;
  DisconnectEvents active_events;
  DisconnectEvents passive_events;
};

// A connection on its way, and the calls that wait.
struct Handshake : Connection {
  Call connect{"no Connect"};
  Call complete{"no CompleteConnect"};
  Call accept{"no Accept"};
};

// For Case::lacks: a handshake of two messages.
extern const Lack kTwoWay;
// The acceptor cannot tell that its peer has not completed.
void ExpectTwoWay(const Handshake& made);

// One broker, and consumers a and b with an instance of the adapter each, who meet through it like strangers. When it
// ends, every call must have ended as calls do, and the broker must hold nothing any more.
class World {
 public:
  // A case's, with a broker that counts.
  World(const Surroundings& surroundings, const Case& which);
  // A case's, with a broker that does not.
  World(const Surroundings& surroundings, const Case& which, std::shared_ptr<RunningBroker> broker);
  World(const Surroundings& surroundings, std::shared_ptr<RunningBroker> broker);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Surroundings& on() const { return surroundings_; }
  // The adapter cannot show the case as it stands: a Lack says what is there instead.
  bool lacks() const {
    lacks_was_asked_ = true;
    return lacks_;
  }
  Calls& calls() { return calls_; }

  // Made when they are first asked for. `b` is at another of the device's addresses.
  Party& a() { return At(0); }
  Party& b() { return At(1); }
  // One more, at a's address or at b's.
  Party& NewParty(size_t home = 0);
  void End(Party& party);

  // The steps of a handshake between a connector of `active` and one that `listener`, of `passive`, delivers: as far as
  // its name says.
  Handshake Request(Party& active, Party& passive, const TestListener& listener,
                    const client::ConnectParameters& parameters = {});
  Handshake Reply(Party& active, Party& passive, const TestListener& listener);
  Connection Establish(Party& active, Party& passive, const TestListener& listener);
  // Through a shared endpoint of `active`.
  Connection EstablishThrough(const std::shared_ptr<client::SharedEndpoint>& endpoint, Party& active, Party& passive,
                              const TestListener& listener);
  // A new listener's, of b, which is closed as soon as its connectors are.
  Connection Establish();
  // The same between queue pairs that the case has made, with these limits and options at both ends.
  Connection Establish(QueuePair* of_a, QueuePair* of_b, const client::ReadLimits& limits,
                       const client::ConnectionOptions& options = {});
  Handshake Request();
  Handshake Reply();

  // The rest of a handshake of a and b that has been requested.
  void Finish(Handshake& made);
  // Both disconnect, neither waiting for the other.
  void Disconnect(Party& active, Party& passive, const Connection& connection);

  // Whether the broker knows of a connector, which is not closing, that its connection is over. Before the connection
  // is established no consumer is told.
  bool HasGivenUp();
  // Returns when everything that the broker had for the consumers before has been delivered.
  void Settle();
  // `call` does not end by what has happened so far.
  void ExpectPending(const Call& call);
  // A message goes from its active to its passive end, of a and b.
  void ExpectCarries(const Connection& connection);
  // A and b close both ends of it, and all of that has ended.
  void Close(const Connection& connection);

  // A command to the broker's process: counting_broker.cc says which there are.
  std::string Tell(const std::string& command);
  RunningBroker& broker() { return *broker_; }

 private:
  Party& At(size_t home);
  // From a request to an established connection.
  void Finish(Party& active, Party& passive, Handshake& made, const client::AcceptParameters& parameters = {});
  uint64_t OperationsSoFar();
  void CheckWhatTheCaseSays();
  // Notes whether the case has used the adapter's data side.
  void Note(const Party& party) { used_data_ = used_data_ || party.has_side(); }

  const Surroundings& surroundings_;
  const Case* const counted_ = nullptr;  // The case whose operations are counted, if they are.
  const bool lacks_ = false;
  mutable bool lacks_was_asked_ = false;
  std::shared_ptr<RunningBroker> broker_;
  uint64_t operations_before_ = 0;
  bool used_data_ = false;
  Calls calls_;
  std::list<Party> others_;
  std::unique_ptr<Party> parties_[2];
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_WORLD_H_
