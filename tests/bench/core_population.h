// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_CORE_POPULATION_H_
#define TESTS_BENCH_CORE_POPULATION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "broker/core/broker_core.h"

namespace rdmabroker::bench {

// A core with as many established connectors as asked for, a hundred in each session, and what a client and a fabric do
// to it. A third of the connectors were accepted, a third connected from ephemeral ports of their own, a third through
// their session's shared endpoint; each has a peer elsewhere. What the core refuses ends the process.
class CorePopulation {
 public:
  explicit CorePopulation(size_t connectors);

  // Ends connections picked at random and makes new ones in their place until so many events have been handled. Returns
  // the nanoseconds that an event takes: BrokerCore::Handle and NextDeadline, nothing of this class.
  double Churn(size_t events);

  // After each event, with what follows from it not yet under way; its time is not counted.
  void AfterEachEvent(std::function<void(BrokerCore&)> action) { after_event_ = std::move(action); }

  // Shows each event with what came of it, which is not counted either.
  using Watching = std::function<void(Instant, const Event&, const Effects&)>;
  void WithEachEvent(Watching watching) { watching_ = std::move(watching); }

  const BrokerCore& core() const { return core_; }

 private:
  enum class Kind : uint8_t { kAccepted, kDedicated, kShared };
  struct Client {
    SessionId session;
    AdapterId adapter;
    EndpointId listening;  // Where its listener is at the fabric.
    SocketAddress address;
    SharedEndpointId shared_endpoint;
    uint64_t last_request = 0;
    EventNumber last_event;
  };
  struct Slot {
    Kind kind = Kind::kAccepted;
    size_t client = 0;
    ConnectorId connector;
    ConnectionId connection;
    SocketAddress peer;
    QpNumber qp;
  };

  void AddClient();
  void End(Slot& slot);
  void Begin(Slot& slot);
  // One event, and then all that the fabric reports in answer to its effects.
  void Run(const Event& event);
  void HandleOne(const Event& event);
  void Ask(size_t client, Request request);
  void Take(const Effect& effect);
  void TakeAnswer(const Payload& payload);
  void Answer(const FabricRequest& request);

  BrokerCore core_;
  Instant now_;
  std::vector<Client> clients_;
  std::vector<Slot> slots_;
  std::deque<FabricReport> reports_;
  std::mt19937_64 random_;
  std::function<void(BrokerCore&)> after_event_ = [](BrokerCore&) {};
  Watching watching_;
  uint64_t last_incoming_ = 0;
  size_t handled_ = 0;
  std::chrono::steady_clock::duration spent_{};
  // What the last effects told.
  AdapterId adapter_;
  ListenerId listener_;
  SharedEndpointId shared_endpoint_;
  ConnectorId connector_;
  ConnectionId connection_;
  EndpointId bound_;
  SocketAddress address_;
  SessionId session_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_CORE_POPULATION_H_
