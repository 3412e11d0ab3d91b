// SPDX-License-Identifier: Apache-2.0

// What a user who lists all the time costs others, where another user has many connectors. docs/benchmarks.md explains.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/bench/control_client.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"
#include "tests/bench/require.h"
#include "tests/bench/server_process.h"
#include "tests/control/test_client.h"

namespace rdmabroker::bench {
namespace {

using Stub = v1::Broker::Stub;

constexpr uid_t kLister = 54321;
constexpr uid_t kThird = 54322;
// In four sessions, as many as one user may have (Limits::objects_per_uid) but for the adapters.
constexpr int kSessions = 4;
constexpr int kConnectorsOfEach = 16'250;
constexpr int kAtATime = 32;
constexpr int kRequests = 1'000;
constexpr int kPairs = 8;

std::string PathOf(const std::string& target) { return target.substr(std::string("unix:").size()); }

// Sessions of the user who runs this.
class ManyConnectors {
 public:
  explicit ManyConnectors(const std::string& target) {
    for (int i = 0; i < kSessions; ++i) Fill(target);
  }

 private:
  void Fill(const std::string& target) {
    sessions_.push_back(std::make_unique<ControlClient>(loop_, NewChannel(target)));
    v1::OpenAdapterRequest open;
    open.set_device("fake1");
    open.mutable_version()->set_major(2);
    uint64_t adapter = 0;
    sessions_.back()->Ask(&Stub::PrepareAsyncOpenAdapter, open,
                          [&](const v1::Outcome& outcome) { adapter = outcome.adapter_opened().adapter_id(); });
    loop_.RunUntil([&] { return adapter != 0; });
    to_make_ = kConnectorsOfEach;
    made_ = 0;
    for (int i = 0; i < kAtATime; ++i) MakeNext(adapter);
    loop_.RunUntil([this] { return made_ == kConnectorsOfEach; });
  }

  void MakeNext(uint64_t adapter) {
    if (to_make_ == 0) return;
    --to_make_;
    v1::CreateConnectorRequest request;
    request.set_adapter_id(adapter);
    sessions_.back()->Ask(&Stub::PrepareAsyncCreateConnector, request, [this, adapter](const v1::Outcome& outcome) {
      Require(outcome.has_connector_created(), "a connector was refused");
      ++made_;
      MakeNext(adapter);
    });
  }

  ClientLoop loop_;
  std::vector<std::unique_ptr<ControlClient>> sessions_;
  int to_make_ = 0;
  int made_ = 0;
};

// Asks for its connectors, of which it has none, without a pause.
class Lister {
 public:
  explicit Lister(const std::string& target)
      : inspection_(v1::Inspection::NewStub(ChannelAs(kLister, PathOf(target)))), thread_([this] { Run(); }) {}
  ~Lister() {
    over_ = true;
    thread_.join();
  }

 private:
  void Run() {
    while (!over_) {
      grpc::ClientContext context;
      v1::ListConnectorsReply reply;
      const bool listed = inspection_->ListConnectors(&context, v1::ListConnectorsRequest(), &reply).ok();
      Require(listed && reply.connectors_size() == 0, "a list failed");
    }
  }

  const std::unique_ptr<v1::Inspection::Stub> inspection_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// Microseconds that a request of the third user takes, in the mean.
double RequestsOf(TestClient& third, uint64_t adapter) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRequests / 2; ++i) {
    Require(NdkStatusOf(third.CloseConnector(third.CreateConnector(adapter))) == NdkStatus::kSuccess, "a close failed");
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kRequests;
}

// As an administrator sees them.
uint64_t Connectors(const std::string& target) {
  grpc::ClientContext context;
  v1::ListSessionsReply sessions;
  const auto inspection = v1::Inspection::NewStub(NewChannel(target));
  Require(inspection->ListSessions(&context, v1::ListSessionsRequest(), &sessions).ok(), "no list of sessions");
  uint64_t connectors = 0;
  for (const v1::SessionInfo& session : sessions.sessions()) connectors += session.connectors();
  return connectors;
}

void Measure() {
  const ServerProcess broker([](const auto& serve_until_told) { ServeAsBroker("", serve_until_told); });
  const auto channel = ChannelAs(kThird, PathOf(broker.target()));
  Require(channel != nullptr, "needs a root that may become other users");
  const ManyConnectors many(broker.target());
  Require(Connectors(broker.target()) == uint64_t{kSessions} * kConnectorsOfEach, "not all connectors are there");
  TestClient third(channel);
  Require(third.Open() == NdkStatus::kSuccess, "no session");
  const uint64_t adapter = third.OpenAdapter("fake1");
  (void)RequestsOf(third, adapter);
  const auto beside_lister = [&] {
    const Lister lister(broker.target());
    return RequestsOf(third, adapter);
  };
  const Spread ratio = RatioOfPairs("us a request", kPairs, {"another user lists without pause", beside_lister},
                                    {"quiet", [&] { return RequestsOf(third, adapter); }});
  PrintRatio("listing, a request while another user lists, beside 65,000 connectors of a third / quiet", ratio,
             "goal: at most 3");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
