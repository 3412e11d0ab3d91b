// SPDX-License-Identifier: Apache-2.0

// The life of a connection through the broker beside empty calls. docs/benchmarks.md explains, and counts the messages.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/bench/control_client.h"
#include "tests/bench/figures.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/processes.h"
#include "tests/bench/queue_server.h"
#include "tests/bench/server_process.h"
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

double CyclesASecond(int cycles, std::chrono::steady_clock::time_point start) {
  return cycles / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two clients of one broker that connect, disconnect and close.
class Cycles {
 public:
  Cycles(ClientLoop& loop, const std::string& target, Requests requests = Requests::kByRpc)
      : loop_(loop), active_(loop, NewChannel(target), requests), passive_(loop, NewChannel(target), requests) {
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
    passive_.Flush();
    loop_.RunUntil([this] { return address_.port() != 0; });
    passive_.OnConnect([this](const v1::ConnectEvent& event) { Accept(event.connector_id()); });
    passive_.OnDisconnect([this](uint64_t connector) { Leave(connector); });
  }

  // So many at a time.
  double Run(int at_a_time) {
    const uint64_t calls = active_.calls() + passive_.calls(), events = active_.events() + passive_.events();
    to_begin_ = kCycles;
    active_done_ = passive_done_ = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < at_a_time; ++i) Begin();
    active_.Flush();
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
    client.Flush();
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

// A server that does nothing. Health's messages are the emptiest that there are.
class EmptyServer {
 public:
  explicit EmptyServer(const std::string& path) : server_(path, &service_) {
    Expect();
    server_.Start();
  }

 private:
  struct Call final : QueueServer::Tag {
    explicit Call(EmptyServer* server) : owner(server) {}
    void Complete(bool ok) override {
      if (!ok || answered) {
        delete this;
        return;
      }
      owner->Expect();
      answered = true;
      writer.Finish(reply, grpc::Status::OK, this);
    }

    EmptyServer* const owner;
    grpc::ServerContext context;
    HealthCheckRequest request;
    HealthCheckResponse reply;
    grpc::ServerAsyncResponseWriter<HealthCheckResponse> writer{&context};
    bool answered = false;
  };

  void Expect() {
    auto* const call = new Call(this);
    service_.RequestCheck(&call->context, &call->request, &call->writer, server_.queue(), server_.queue(), call);
  }

  Health::AsyncService service_;
  QueueServer server_;
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

// A broker, and the processor time of each of its runs, by cycle.
struct Measured {
  double Run(int at_a_time) {
    const double before = process.CpuMicroseconds();
    const double rate = cycles.Run(at_a_time);
    cpu.push_back((process.CpuMicroseconds() - before) / kCycles);
    return 1e6 / rate;
  }

  const ServerProcess& process;
  Cycles& cycles;
  std::vector<double> cpu = {};
};

// A cycle with the store beside one without.
void MeasureStore(Measured with, Measured without, int at_a_time) {
  constexpr int kPairs = 12;
  const std::string many = std::to_string(at_a_time) + " at a time";
  const Spread ratio = RatioOfPairs("us a cycle, " + many, kPairs, {"stored", [&] { return with.Run(at_a_time); }},
                                    {"not stored", [&] { return without.Run(at_a_time); }});
  PrintRatio("control, a connection's life with the store / without, " + many, ratio, "goal: at most 1.03");
  const double stored = SpreadOf(with.cpu).median, plain = SpreadOf(without.cpu).median;
  std::printf("  processor time of the broker, us a cycle: %.0f stored, %.0f not stored\n", stored, plain);
  PrintRatio("control, processor time of a broker with a store / without, " + many, stored / plain, "reported");
}

// Requests on the stream beside RPCs, both stored.
void MeasureStream(EmptyCalls& calls, Measured by_rpc, Measured on_stream, int at_a_time, const char* goal) {
  const std::string many = std::to_string(at_a_time) + " at a time";
  auto medians = MediansOfAlternatingRuns("us a cycle, stored, " + many,
                                          {{"12 empty calls", [&] { return 1e6 / calls.Run(at_a_time); }},
                                           {"by RPC", [&] { return by_rpc.Run(at_a_time); }},
                                           {"on the stream", [&] { return on_stream.Run(at_a_time); }}});
  PrintRatio("control, a connection's life on the stream, stored, " + many + " / 12 empty calls",
             medians["12 empty calls"] / medians["on the stream"], goal);
  PrintRatio("control, processor time of a broker, requests on the stream / by RPC, " + many,
             SpreadOf(on_stream.cpu).median / SpreadOf(by_rpc.cpu).median, "reported");
}

void Measure() {
  const MemoryFolder state;
  const ServerProcess broker([](const auto& serve_until_told) { ServeAsBroker("", serve_until_told); });
  const ServerProcess storing(
      [&](const auto& serve_until_told) { ServeAsBroker(state.path() + "/state", serve_until_told); });
  const ServerProcess empty([](const auto& serve_until_told) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/empty.sock";
    const EmptyServer server(path);
    serve_until_told("unix:" + path);
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  ClientLoop loop;
  EmptyCalls calls(loop, empty.target());
  Cycles cycles(loop, broker.target());
  Cycles stored_cycles(loop, storing.target());
  Cycles stream_cycles(loop, storing.target(), Requests::kOnStream);
  for (const int at_a_time : {1, 8}) {
    const std::string many = std::to_string(at_a_time) + " at a time";
    auto medians = MediansOfAlternatingRuns(
        "a second, " + many, {{"12 empty calls", [&] { return calls.Run(at_a_time); }},
                              {"connect, complete, disconnect, close", [&] { return cycles.Run(at_a_time); }}});
    PrintRatio("control, a connection's life, " + many + " / 12 empty calls",
               medians["connect, complete, disconnect, close"] / medians["12 empty calls"], "goal: at least 0.6");
    MeasureStore({storing, stored_cycles}, {broker, cycles}, at_a_time);
  }
  const std::pair<int, const char*> goals[] = {
      {1, "goal: at least 1.0"}, {8, "goal: at least 0.7"}, {64, "goal: at least 1.5"}};
  for (const auto& [at_a_time, goal] : goals) {
    MeasureStream(calls, {storing, stored_cycles}, {storing, stream_cycles}, at_a_time, goal);
  }
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
