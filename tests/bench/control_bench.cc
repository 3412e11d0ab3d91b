// SPDX-License-Identifier: Apache-2.0

// The life of a connection through the broker beside empty calls. docs/benchmarks.md explains, and counts the messages.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "broker/control/control_socket.h"
#include "broker/control/transport_limits.h"
#include "broker/core/limits.h"
#include "dataplane/unique_fd.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/bench/control_client.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker::bench {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Stub = v1::Broker::Stub;

// docs/benchmarks.md: 8 calls, and 8 events that count half.
constexpr int kCallsOfYardstick = 12;
constexpr uint64_t kCallsOfCycle = 8;
constexpr uint64_t kEventsOfCycle = 8;
constexpr int kCycles = 1500;

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

double CyclesASecond(int cycles, std::chrono::steady_clock::time_point start) {
  return cycles / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two clients of one broker that connect, disconnect and close.
class Cycles {
 public:
  Cycles(ClientLoop& loop, const std::string& target)
      : loop_(loop), active_(loop, NewChannel(target)), passive_(loop, NewChannel(target)) {
    adapter_ = OpenAdapter(active_);
    v1::CreateListenerRequest create;
    create.set_adapter_id(OpenAdapter(passive_));
    v1::ListenRequest listen;
    *listen.mutable_address() = ToMessage(TestAddress(1));
    passive_.Ask(&Stub::PrepareAsyncCreateListener, create, [&](const v1::Outcome& created) {
      listen.set_listener_id(created.listener_created().listener_id());
      passive_.Ask(&Stub::PrepareAsyncListen, listen,
                   [this](const v1::Outcome& outcome) { address_ = outcome.listening().address(); });
    });
    loop_.RunUntil([this] { return address_.port() != 0; });
    passive_.OnConnect([this](uint64_t connector) { Accept(connector); });
    passive_.OnDisconnect([this](uint64_t connector) { Leave(connector); });
  }

  // So many at a time.
  double Run(int at_a_time) {
    const uint64_t calls = active_.calls() + passive_.calls(), events = active_.events() + passive_.events();
    to_begin_ = kCycles;
    active_done_ = passive_done_ = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < at_a_time; ++i) Begin();
    loop_.RunUntil([this] { return active_done_ == kCycles && passive_done_ == kCycles; });
    const double rate = CyclesASecond(kCycles, start);
    const uint64_t calls_made = active_.calls() + passive_.calls() - calls;
    const uint64_t events_came = active_.events() + passive_.events() - events;
    if (calls_made != kCycles * kCallsOfCycle || events_came != kCycles * kEventsOfCycle) {
      std::fprintf(stderr, "%d cycles took %llu calls and %llu events\n", kCycles,
                   static_cast<unsigned long long>(calls_made), static_cast<unsigned long long>(events_came));
      std::exit(1);
    }
    return rate;
  }

 private:
  uint64_t OpenAdapter(ControlClient& client) {
    v1::OpenAdapterRequest request;
    request.set_device("fake1");
    request.mutable_version()->set_major(2);
    uint64_t adapter = 0;
    client.Ask(&Stub::PrepareAsyncOpenAdapter, request,
               [&](const v1::Outcome& outcome) { adapter = outcome.adapter_opened().adapter_id(); });
    loop_.RunUntil([&] { return adapter != 0; });
    return adapter;
  }

  void Begin() {
    if (to_begin_ == 0) return;
    --to_begin_;
    v1::CreateConnectorRequest request;
    request.set_adapter_id(adapter_);
    active_.Ask(&Stub::PrepareAsyncCreateConnector, request,
                [this](const v1::Outcome& created) { Connect(created.connector_created().connector_id()); });
  }

  void Connect(uint64_t connector) {
    v1::ConnectRequest request;
    request.set_connector_id(connector);
    request.set_qp_number(NextQp());
    *request.mutable_source() = ToMessage(TestAddress(1));
    *request.mutable_destination() = address_;
    active_.Ask(&Stub::PrepareAsyncConnect, request, [this, connector](const v1::Outcome&) {
      v1::CompleteConnectRequest complete;
      complete.set_connector_id(connector);
      active_.Ask(&Stub::PrepareAsyncCompleteConnect, complete,
                  [this, connector](const v1::Outcome&) { Disconnect(connector); });
    });
  }

  void Disconnect(uint64_t connector) {
    v1::DisconnectRequest request;
    request.set_connector_id(connector);
    active_.Ask(&Stub::PrepareAsyncDisconnect, request, [this, connector](const v1::Outcome&) {
      v1::CloseConnectorRequest close;
      close.set_connector_id(connector);
      active_.Ask(&Stub::PrepareAsyncCloseConnector, close, [this](const v1::Outcome&) {
        ++active_done_;
        Begin();
      });
    });
  }

  void Accept(uint64_t connector) {
    v1::AcceptRequest request;
    request.set_connector_id(connector);
    request.set_qp_number(NextQp());
    passive_.Ask(&Stub::PrepareAsyncAccept, request, [](const v1::Outcome&) {});
  }

  void Leave(uint64_t connector) {
    v1::DisconnectRequest request;
    request.set_connector_id(connector);
    passive_.Ask(&Stub::PrepareAsyncDisconnect, request, [this, connector](const v1::Outcome&) {
      v1::CloseConnectorRequest close;
      close.set_connector_id(connector);
      passive_.Ask(&Stub::PrepareAsyncCloseConnector, close, [this](const v1::Outcome&) { ++passive_done_; });
    });
  }

  // Far fewer than the 2^24 that there are.
  uint32_t NextQp() { return ++last_qp_; }

  ClientLoop& loop_;
  ControlClient active_;
  ControlClient passive_;
  uint64_t adapter_ = 0;
  v1::SocketAddress address_;
  uint32_t last_qp_ = 1;
  int to_begin_ = 0;
  int active_done_ = 0;
  int passive_done_ = 0;
};

// A server that does nothing. All else is as in the broker: asynchronous services on one queue and one thread, the
// settings, and connections that another thread accepts on a Unix socket. Health's messages are the emptiest that there
// are.
class EmptyServer {
 public:
  explicit EmptyServer(const std::string& path) {
    auto listener = ListenOnUnixSocket(path, SOCK_STREAM, 0600, std::nullopt);
    Require(listener.ok(), "no socket for the empty server");
    listener_ = *std::move(listener);
    grpc::ServerBuilder builder;
    SetTransportLimits(builder, Limits().answers_kept);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    acceptor_ = std::thread([this] { Accept(); });
    loop_ = std::thread([this] { Run(); });
  }
  ~EmptyServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    server_->Shutdown();
    queue_->Shutdown();
    loop_.join();
  }

 private:
  struct Call {
    grpc::ServerContext context;
    HealthCheckRequest request;
    HealthCheckResponse reply;
    grpc::ServerAsyncResponseWriter<HealthCheckResponse> writer{&context};
    bool answered = false;
  };

  // Until the socket is shut down.
  void Accept() {
    pollfd ready = {listener_.get(), POLLIN, 0};
    while (::poll(&ready, 1, -1) == 1) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      grpc::AddInsecureChannelFromFd(server_.get(), fd);
    }
  }

  void Expect() {
    auto* const call = new Call;
    service_.RequestCheck(&call->context, &call->request, &call->writer, queue_.get(), queue_.get(), call);
  }

  void Run() {
    Expect();
    void* tag = nullptr;
    for (bool ok = false; queue_->Next(&tag, &ok);) {
      std::unique_ptr<Call> call(static_cast<Call*>(tag));
      if (!ok || call->answered) continue;
      Expect();
      call->answered = true;
      Call* const answering = call.release();
      answering->writer.Finish(answering->reply, grpc::Status::OK, answering);
    }
  }

  Health::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  UniqueFd listener_;
  std::thread acceptor_;
  std::thread loop_;
};

// Chains of empty calls, which take turns on two channels.
class EmptyCalls {
 public:
  EmptyCalls(ClientLoop& loop, const std::string& target)
      : loop_(loop), stubs_{Health::NewStub(NewChannel(target)), Health::NewStub(NewChannel(target))} {}

  double Run(int at_a_time) {
    to_begin_ = kCycles;
    done_ = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < at_a_time; ++i) Begin();
    loop_.RunUntil([this] { return done_ == kCycles; });
    return CyclesASecond(kCycles, start);
  }

 private:
  void Begin() {
    if (to_begin_ == 0) return;
    --to_begin_;
    Go(kCallsOfYardstick);
  }

  void Go(int left) {
    if (left == 0) {
      ++done_;
      return Begin();
    }
    CallOn<HealthCheckResponse>(
        loop_,
        [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return stubs_[static_cast<size_t>(left) % 2]->PrepareAsyncCheck(context, HealthCheckRequest(), queue);
        },
        [this, left](const HealthCheckResponse&) { Go(left - 1); });
  }

  ClientLoop& loop_;
  const std::unique_ptr<Health::Stub> stubs_[2];
  int to_begin_ = 0;
  int done_ = 0;
};

// A server in a process of its own, since gRPC's completion queues hinder each other in one. Made before this process
// has used gRPC. `serve` says what its target is, and returns when it is told to end.
class ServerProcess {
 public:
  using Serve = std::function<void(const std::function<void(const std::string& target)>& serve_until_told)>;

  explicit ServerProcess(const Serve& serve) {
    int up[2] = {-1, -1}, down[2] = {-1, -1};
    Require(::pipe2(up, O_CLOEXEC) == 0 && ::pipe2(down, O_CLOEXEC) == 0, "no pipes to a server");
    process_ = ::fork();
    Require(process_ >= 0, "no process for a server");
    if (process_ == 0) {
      ::close(down[1]);
      serve([&](const std::string& target) {
        char told = 0;
        if (::write(up[1], target.data(), target.size()) > 0) (void)!::read(down[0], &told, 1);
      });
      std::fflush(nullptr);
      ::_exit(0);
    }
    ::close(up[1]);
    ::close(down[0]);
    until_told_.Reset(down[1]);
    const UniqueFd says(up[0]);
    char target[256];
    const ssize_t length = ::read(says.get(), target, sizeof target);
    Require(length > 0, "a server did not start");
    target_.assign(target, static_cast<size_t>(length));
  }
  ~ServerProcess() {
    until_told_.Reset();
    int status = 0;
    Require(::waitpid(process_, &status, 0) == process_ && status == 0, "a server failed");
  }

  const std::string& target() const { return target_; }

 private:
  pid_t process_ = -1;
  UniqueFd until_told_;  // Closed, it tells.
  std::string target_;
};

void Measure() {
  const ServerProcess broker([](const auto& serve_until_told) {
    NetworkThread network;
    const TestDaemon daemon(network);
    serve_until_told(daemon.target());
  });
  const ServerProcess empty([](const auto& serve_until_told) {
    // As TestDaemon does.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/empty.sock";
    const EmptyServer server(path);
    serve_until_told("unix:" + path);
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  ClientLoop loop;
  EmptyCalls calls(loop, empty.target());
  Cycles cycles(loop, broker.target());
  for (const int at_a_time : {1, 8}) {
    const std::string many = std::to_string(at_a_time) + " at a time";
    auto medians = MediansOfAlternatingRuns(
        "a second, " + many, {{"12 empty calls", [&] { return calls.Run(at_a_time); }},
                              {"connect, complete, disconnect, close", [&] { return cycles.Run(at_a_time); }}});
    PrintRatio("control, a connection's life, " + many + " / 12 empty calls",
               medians["connect, complete, disconnect, close"] / medians["12 empty calls"], "goal: at least 0.6");
  }
}

}  // namespace
}  // namespace rdmabroker::bench

int main() {
  rdmabroker::bench::RunAboveOthers();
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure();
}
