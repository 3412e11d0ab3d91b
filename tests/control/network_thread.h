// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_NETWORK_THREAD_H_
#define TESTS_CONTROL_NETWORK_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/fabric/fake/fake_network.h"
#include "broker/runtime/executor.h"
#include "broker/runtime/handoff_table.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A FakeNetwork on a thread of its own, so that brokers with loop threads of their own can meet on it. Outlives them.
class NetworkThread final : public Executor {
 public:
  NetworkThread();
  ~NetworkThread() override;
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  void Post(std::function<void()> task) override;
  // Runs `task` on the thread and waits for its end. Not from the thread itself.
  void Do(const std::function<void(FakeNetwork&)>& task);
  // From the one to the other nothing arrives, neither messages nor reports; in pairs, which may overlap. Release
  // returns when what was held has arrived. On the thread only.
  void Hold() { ++holds_; }
  void Release();

  // One end of a stream between the two addresses; the other end is whoever's asks with the addresses exchanged. On the
  // thread only.
  UniqueFd StreamBetween(const SocketAddress& local, const SocketAddress& peer);

 private:
  void Run();

  FakeNetwork network_;
  std::map<std::pair<SocketAddress, SocketAddress>, UniqueFd> streams_;  // By who is to have them.
  int holds_ = 0;
  std::function<void()> held_;  // The network's next deliveries.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

// What becomes of a transport that its client has been offered: about to be sent, or taken.
struct HandoffStep {
  ConnectionId connection;
  bool taken = false;
};

// The broker has stored a connect request that it was told of.
struct ConnectRequestStored {
  ConnectionId connection;
};

// What a broker asks of its host, and what it is told.
using HostRequest = std::variant<FabricRequest, HandoffStep, ConnectRequestStored>;
struct HostReport {
  FabricReport report;
  std::string transport_state;  // Of the transport that comes with it: what its client's data path is to know.
};

// A FakeFabric with the transports that its devices' clients end: for each connection one end of a stream, which
// reaches the peer's client and on which user-space iWARP's queue pairs can go on. Lives on the network's thread, and
// may outlive the broker's process, as a kernel does.
class FakeHost {
 public:
  // The transport is none where none is offered, or the client has it.
  using Sink = std::function<void(const HostReport& report, UniqueFd transport)>;

  FakeHost(NetworkThread& network, std::vector<FakeDevice> devices);
  ~FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  // The rest on the network's thread only.
  void Start(Sink sink);
  void Take(const HostRequest& request);
  // The broker's process has ended: its client may have what was about to be sent, as nobody can tell. A connect
  // request that was not stored waits for the next process, as in a socket's queue.
  void LoseBroker();
  FakeFabric& fake() { return *fake_; }

 private:
  struct Way {
    SocketAddress local;
    SocketAddress peer;
    bool initiator = false;
    ReadLimits limits;
    std::optional<HandoffSecret> secret;  // Once it is established.
    UniqueFd transport;                   // Until its client has it.
    bool may_be_taken = false;
    bool given_up = false;
    std::optional<FabricConnectRequested> not_stored;
  };

  void Take(const FabricRequest& request);
  void Take(const HandoffStep& step);
  void Take(const ConnectRequestStored& stored);
  void Report(const FabricReport& report);
  void HandOver(Way& way);

  NetworkThread& network_;
  Sink sink_;
  std::unique_ptr<FakeFabric> fake_;
  std::map<ConnectionId, Way> ways_;
};

// On the loop thread: the broker's core hears of it, once the transport is where its client fetches it. `ask` is for
// the host.
void Deliver(const HostReport& report, UniqueFd transport, HandoffTable& handoffs, const ReportSink& sink,
             const std::function<void(const HostRequest&)>& ask);

// A FakeHost as a fabric of the broker whose loop thread `loop` is, and with which it ends.
class FabricRelay final : public Fabric {
 public:
  FabricRelay(NetworkThread& network, std::vector<FakeDevice> devices, Executor& loop, HandoffTable& handoffs)
      : network_(network), loop_(loop), handoffs_(handoffs), devices_(devices), host_(network, std::move(devices)) {}

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;
  Route RouteTo(const SocketAddress& destination) const override { return FakeRoute(devices_, destination); }

  // On the network's thread only.
  FakeFabric& fake() { return host_.fake(); }

 private:
  void Ask(const HostRequest& request);

  NetworkThread& network_;
  Executor& loop_;
  HandoffTable& handoffs_;
  const std::vector<FakeDevice> devices_;  // That there were at first, for routes.
  FakeHost host_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_NETWORK_THREAD_H_
