// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_NETWORK_THREAD_H_
#define TESTS_CONTROL_NETWORK_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
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

  // One end of a stream between the two addresses; the other end is whoever's asks with the addresses exchanged. On the
  // thread only.
  UniqueFd StreamBetween(const SocketAddress& local, const SocketAddress& peer);

 private:
  void Run();

  FakeNetwork network_;
  std::map<std::pair<SocketAddress, SocketAddress>, UniqueFd> streams_;  // By who is to have them.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

// A FakeFabric, which lives on the network's thread, as a fabric of the broker whose loop thread `loop` is. Where its
// devices' clients end connections, it offers them one end of a stream in `handoffs`, which reaches the peer's client
// and on which user-space iWARP's queue pairs can go on.
class FabricRelay final : public Fabric {
 public:
  FabricRelay(NetworkThread& network, std::vector<FakeDevice> devices, Executor& loop, HandoffTable& handoffs);
  ~FabricRelay() override;

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;

  // On the network's thread only.
  FakeFabric& fake() { return *fake_; }

 private:
  struct Way {
    SocketAddress local;
    SocketAddress peer;
    bool initiator = false;
    ReadLimits limits;
  };

  // On the network's thread.
  void Report(FabricReport report);
  // On the loop thread: the client gets the table's secret instead of the fake's.
  void Offer(FabricEstablished established, const Way& way, UniqueFd stream);

  NetworkThread& network_;
  Executor& loop_;
  HandoffTable& handoffs_;
  ReportSink sink_;
  std::unique_ptr<FakeFabric> fake_;
  std::map<ConnectionId, Way> ways_;  // On the network's thread only.
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_NETWORK_THREAD_H_
