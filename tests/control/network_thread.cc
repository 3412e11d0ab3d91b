// SPDX-License-Identifier: Apache-2.0

#include "tests/control/network_thread.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {

NetworkThread::NetworkThread() {
  network_.OnBreach([](const std::string& what) { ADD_FAILURE() << what; });
  network_.PumpWith([this](std::function<void()> task) { Post(std::move(task)); });
  thread_ = std::thread([this] { Run(); });
}

NetworkThread::~NetworkThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void NetworkThread::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void NetworkThread::Do(const std::function<void(FakeNetwork&)>& task) {
  std::promise<void> done;
  Post([&] {
    task(network_);
    done.set_value();
  });
  done.get_future().wait();
}

void NetworkThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

UniqueFd NetworkThread::StreamBetween(const SocketAddress& local, const SocketAddress& peer) {
  if (auto waiting = streams_.extract({local, peer})) return std::move(waiting.mapped());
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  streams_[{peer, local}] = UniqueFd(ends[1]);
  return UniqueFd(ends[0]);
}

FabricRelay::FabricRelay(NetworkThread& network, std::vector<FakeDevice> devices, Executor& loop,
                         HandoffTable& handoffs)
    : network_(network), loop_(loop), handoffs_(handoffs) {
  network_.Do([&](FakeNetwork& fakes) { fake_ = std::make_unique<FakeFabric>(fakes, std::move(devices)); });
}

FabricRelay::~FabricRelay() {
  network_.Do([&](FakeNetwork&) { fake_.reset(); });
}

void FabricRelay::Start(ReportSink sink) {
  sink_ = std::move(sink);
  network_.Do([&](FakeNetwork&) { fake_->Start([this](FabricReport report) { Report(std::move(report)); }); });
}

void FabricRelay::Perform(const FabricRequest& request) {
  if (const auto* release = std::get_if<FabricRelease>(&request)) handoffs_.Withdraw(release->connection);
  network_.Post([this, request] {
    if (const auto* connect = std::get_if<FabricConnect>(&request)) {
      ways_[connect->connection] = {connect->local, connect->peer, true, connect->limits};
    } else if (const auto* accept = std::get_if<FabricAccept>(&request)) {
      ways_.at(accept->connection).limits = accept->limits;
    } else if (const auto* complete = std::get_if<FabricComplete>(&request)) {
      ways_.at(complete->connection).limits = complete->limits;
    }
    if (fake_ != nullptr) fake_->Perform(request);
  });
}

void FabricRelay::Report(FabricReport report) {
  if (const auto* request = std::get_if<FabricConnectRequested>(&report)) {
    ways_[request->connection] = {request->local, request->peer};
  }
  if (const auto* released = std::get_if<FabricReleased>(&report)) ways_.erase(released->connection);
  if (const auto* established = std::get_if<FabricEstablished>(&report); established && established->handoff) {
    const Way& way = ways_.at(established->connection);
    // A posted task can be copied; a descriptor cannot.
    auto stream = std::make_shared<UniqueFd>(network_.StreamBetween(way.local, way.peer));
    return loop_.Post([this, established = *established, way, stream] { Offer(established, way, std::move(*stream)); });
  }
  loop_.Post([sink = sink_, report = std::move(report)] { sink(report); });
}

void FabricRelay::Offer(FabricEstablished established, const Way& way, UniqueFd stream) {
  const ConnectionId connection = established.connection;
  Handoff handoff;
  handoff.socket = std::move(stream);
  handoff.state =
      iwarp::EncodeConnectionState({.role = way.initiator ? iwarp::Role::kInitiator : iwarp::Role::kResponder,
                                    .ready_to_receive = iwarp::ReadyToReceive::kWrite,
                                    .fpdu_limit = iwarp::kMaxFpduLength,
                                    .inbound_read_limit = way.limits.inbound,
                                    .outbound_read_limit = way.limits.outbound});
  handoff.on_taken = [this, secret = *established.handoff] {
    network_.Post([this, secret] {
      // Nothing where the peer has ended the connection meanwhile.
      if (fake_ != nullptr) fake_->Fetch(secret);
    });
  };
  handoff.on_lost = [this, connection] { sink_(FabricDisconnected{connection, NdkStatus::kConnectionAborted}); };
  established.handoff = handoffs_.Offer(connection, std::move(handoff));
  sink_(established);
}

}  // namespace rdmabroker
