// SPDX-License-Identifier: Apache-2.0

#include "tests/control/network_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {

NetworkThread::NetworkThread() {
  network_.OnBreach([](const std::string& what) { ADD_FAILURE() << what; });
  network_.PumpWith([this](std::function<void()> deliveries) {
    Post([this, deliveries = std::move(deliveries)] {
      if (holds_ == 0) return deliveries();
      held_ = deliveries;
    });
  });
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

void NetworkThread::Release() {
  if (--holds_ > 0) return;
  network_.DeliverAll();
  if (held_) std::exchange(held_, nullptr)();
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

FakeHost::FakeHost(NetworkThread& network, std::vector<FakeDevice> devices) : network_(network) {
  network_.Do([&](FakeNetwork& fakes) { fake_ = std::make_unique<FakeFabric>(fakes, std::move(devices)); });
}

FakeHost::~FakeHost() {
  network_.Do([&](FakeNetwork&) { fake_.reset(); });
}

void FakeHost::Start(Sink sink) {
  sink_ = std::move(sink);
  fake_->Start([this](const FabricReport& report) { Report(report); });
}

void FakeHost::Take(const HostRequest& request) {
  std::visit([this](const auto& typed) { Take(typed); }, request);
}

void FakeHost::Take(const FabricRequest& request) {
  if (const auto* connect = std::get_if<FabricConnect>(&request)) {
    ways_[connect->connection] = {connect->local, connect->peer, true, connect->limits};
  } else if (const auto* accept = std::get_if<FabricAccept>(&request)) {
    ways_.at(accept->connection).limits = accept->limits;
  } else if (const auto* complete = std::get_if<FabricComplete>(&request)) {
    ways_.at(complete->connection).limits = complete->limits;
  } else if (const auto* release = std::get_if<FabricRelease>(&request)) {
    const auto way = ways_.find(release->connection);
    if (way != ways_.end()) {
      way->second.given_up = true;
      way->second.transport.Reset();
    }
  }
  fake_->Perform(request);
}

void FakeHost::Take(const HandoffStep& step) {
  const auto way = ways_.find(step.connection);
  if (way == ways_.end()) return;
  way->second.may_be_taken = true;
  if (step.taken) HandOver(way->second);
}

void FakeHost::Take(const ConnectRequestStored& stored) {
  if (const auto way = ways_.find(stored.connection); way != ways_.end()) way->second.not_stored.reset();
}

void FakeHost::LoseBroker() {
  for (auto& [connection, way] : ways_) {
    if (way.may_be_taken && way.transport) HandOver(way);
    if (way.not_stored) fake_->ReportAgain(*way.not_stored);
  }
}

void FakeHost::HandOver(Way& way) {
  way.transport.Reset();
  // Nothing where the peer has ended the connection meanwhile.
  fake_->Fetch(*way.secret);
}

void FakeHost::Report(const FabricReport& report) {
  if (const auto* request = std::get_if<FabricConnectRequested>(&report)) {
    ways_[request->connection] = {.local = request->local, .peer = request->peer, .not_stored = *request};
  }
  if (const auto* released = std::get_if<FabricReleased>(&report)) ways_.erase(released->connection);
  const auto* established = std::get_if<FabricEstablished>(&report);
  if (established == nullptr || !established->handoff) return sink_({report}, UniqueFd());
  Way& way = ways_.at(established->connection);
  // It may be said again, to another process of the broker.
  if (!way.secret) way.transport = network_.StreamBetween(way.local, way.peer);
  way.secret = established->handoff;
  if (way.given_up) way.transport.Reset();
  sink_(
      {report, iwarp::EncodeConnectionState({.role = way.initiator ? iwarp::Role::kInitiator : iwarp::Role::kResponder,
                                             .ready_to_receive = iwarp::ReadyToReceive::kWrite,
                                             .fpdu_limit = iwarp::kMaxFpduLength,
                                             .inbound_read_limit = way.limits.inbound,
                                             .outbound_read_limit = way.limits.outbound})},
      UniqueFd(way.transport ? ::fcntl(way.transport.get(), F_DUPFD_CLOEXEC, 0) : -1));
}

void Deliver(const HostReport& report, UniqueFd transport, HandoffTable& handoffs, const ReportSink& sink,
             const std::function<void(const HostRequest&)>& ask) {
  if (transport) {
    const auto& established = std::get<FabricEstablished>(report.report);
    const ConnectionId connection = established.connection;
    Handoff handoff = {.secret = *established.handoff, .socket = std::move(transport), .state = report.transport_state};
    handoff.on_sending = [ask, connection](bool sent) {
      if (sent) ask(HandoffStep{connection});
    };
    handoff.on_taken = [ask, connection] { ask(HandoffStep{connection, true}); };
    handoff.on_lost = [sink, connection] { sink(FabricDisconnected{connection, NdkStatus::kConnectionAborted}); };
    handoffs.OfferAgain(connection, std::move(handoff));
  }
  sink(report.report);
}

void FabricRelay::Start(ReportSink sink) {
  const auto on_report = [this, sink = std::move(sink)](const HostReport& report, UniqueFd transport) {
    // A posted task can be copied; a descriptor cannot.
    const auto shared = std::make_shared<UniqueFd>(std::move(transport));
    loop_.Post([this, sink, report, shared] {
      Deliver(report, std::move(*shared), handoffs_, sink, [this](const HostRequest& request) { Ask(request); });
    });
  };
  network_.Do([&](FakeNetwork&) { host_.Start(on_report); });
}

void FabricRelay::Perform(const FabricRequest& request) {
  if (const auto* release = std::get_if<FabricRelease>(&request)) handoffs_.Withdraw(release->connection);
  Ask(request);
}

void FabricRelay::Ask(const HostRequest& request) {
  network_.Post([this, request] { host_.Take(request); });
}

}  // namespace rdmabroker
