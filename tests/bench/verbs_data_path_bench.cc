// SPDX-License-Identifier: Apache-2.0

// dataplane/verbs beside the same loops on bare libibverbs. docs/benchmarks.md explains.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/transition.h"
#include "tests/bench/bare_verbs.h"
#include "tests/bench/figures.h"
#include "tests/bench/handshake_times.h"
#include "tests/bench/kernel_handshakes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr uint32_t kDepth = 32;
constexpr uint32_t kPing = 64;  // Bytes.
constexpr int kPings = 400;
constexpr uint32_t kMessage = 64 * 1024;  // Bytes.
constexpr int kMessages = 64;
constexpr int kWindow = 16;

void Check(NdkStatus status, const char* what) {
  if (status != NdkStatus::kSuccess) Fail(std::string(what) + ": " + std::string(StatusName(status)));
}

// BareEnd's counterpart on dataplane/verbs. Its objects stay until the process ends.
class DataPlaneEnd {
 public:
  explicit DataPlaneEnd(Adapter& adapter) : buffer_(kMessage) {
    ProtectionDomain* const domain = Made(adapter.CreateProtectionDomain(), "a protection domain");
    queue_ = Made(adapter.CreateCompletionQueue(4 * kDepth, {}), "a completion queue");
    queue_pair_ = Made(domain->CreateQueuePair({.receive_cq = queue_,
                                                .initiator_cq = queue_,
                                                .receive_queue_depth = kDepth,
                                                .initiator_queue_depth = kDepth,
                                                .max_receive_request_sge = 1,
                                                .max_initiator_request_sge = 1}),
                       "a queue pair");
    region_ = Made(domain->CreateMemoryRegion(false), "a memory region");
    Check(region_->Register(buffer_.data(), buffer_.size(), kMrAllowRemoteWrite), "Register");
  }

  uint32_t number() const { return queue_pair_->number(); }
  void Move(const QpAttributes& step) { Check(queue_pair_->Attach(verbs::AttachmentFor(step), {}), "Attach"); }
  void Establish() { Check(queue_pair_->Attach({}, {}), "Attach"); }

  void PostSend(uint32_t length) {
    const Sge piece = Piece(length);
    Check(queue_pair_->Send(nullptr, {&piece, 1}, 0), "Send");
  }
  void PostWrite(uint32_t length, const DataPlaneEnd& other) {
    const Sge piece = Piece(length);
    const RemoteMemory target = {reinterpret_cast<uintptr_t>(other.buffer_.data()), other.region_->remote_token()};
    Check(queue_pair_->Write(nullptr, {&piece, 1}, target, 0), "Write");
  }
  void PostReceive(uint32_t length) {
    const Sge piece = Piece(length);
    Check(queue_pair_->Receive(nullptr, {&piece, 1}), "Receive");
  }
  void Await(size_t results) {
    while (ahead_ < results) {
      const size_t got = queue_->GetResultsEx(batch_);
      for (size_t i = 0; i < got; ++i) Check(batch_[i].status, "a request");
      ahead_ += got;
    }
    ahead_ -= results;
  }

 private:
  template <typename Object>
  static Object* Made(const Created<Object>& created, const char* what) {
    Check(created.status, what);
    return created.object;
  }
  Sge Piece(uint32_t length) { return {buffer_.data(), length, region_->local_token()}; }

  std::vector<uint8_t> buffer_;
  CompletionQueue* queue_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  MemoryRegion* region_ = nullptr;
  std::array<ResultEx, kBatch> batch_;
  size_t ahead_ = 0;  // Results that came and were not awaited.
};

template <typename End>
void Connect(KernelHandshakes& handshakes, End& one, End& other) {
  const auto side = [](End& end) {
    return HandshakeSide{end.number(), [&end](const QpAttributes& step) { end.Move(step); }};
  };
  const HandshakePair pair = {side(one), side(other)};
  handshakes.Run({&pair, 1});
  one.Establish();
  other.Establish();
  other.PostReceive(kPing);
}

// Microseconds for a message there and one back; both ends take the results of their sends, too. One receive lies
// ready at `other`.
template <typename End>
double RoundTrip(End& one, End& other) {
  const int64_t start = NanosecondsNow();
  for (int i = 0; i < kPings; ++i) {
    one.PostReceive(kPing);
    one.PostSend(kPing);
    other.Await(1);
    other.PostReceive(kPing);
    other.PostSend(kPing);
    one.Await(2);
    other.Await(1);
  }
  return static_cast<double>(NanosecondsNow() - start) / kPings * 1e-3;
}

// MiB a second, by writes of which a window is under way.
template <typename End>
double WriteBandwidth(End& one, End& other) {
  const int64_t start = NanosecondsNow();
  for (int i = 0; i < kMessages; ++i) {
    if (i >= kWindow) one.Await(1);
    one.PostWrite(kMessage, other);
  }
  one.Await(std::min(kWindow, kMessages));
  return kMessages * (kMessage / 1048576.0) / static_cast<double>(NanosecondsNow() - start) * 1e9;
}

void Measure(const std::string& name, const IpAddress& address, int pairs) {
  const BareDevice device(name);
  BareEnd bare_one(device, kDepth, kMessage), bare_other(device, kDepth, kMessage);
  const Created<Adapter> adapter = verbs::OpenAdapter(name);
  Check(adapter.status, "OpenAdapter");
  DataPlaneEnd one(*adapter.object), other(*adapter.object);
  KernelHandshakes bare_handshakes(address, !device.iwarp()), handshakes(address, !device.iwarp());
  Connect(bare_handshakes, bare_one, bare_other);
  Connect(handshakes, one, other);

  const Contender bare_trip = {"64-byte SEND round trip, libibverbs", [&] { return RoundTrip(bare_one, bare_other); }};
  const Contender trip = {"64-byte SEND round trip, dataplane/verbs", [&] { return RoundTrip(one, other); }};
  const Contender bare_stream = {"64 KiB WRITE, libibverbs", [&] { return WriteBandwidth(bare_one, bare_other); }};
  const Contender stream = {"64 KiB WRITE, dataplane/verbs", [&] { return WriteBandwidth(one, other); }};
  for (const Contender& warm_up : {bare_trip, trip, bare_stream, stream}) warm_up.run();
  PrintRatio(name + ", 64-byte SEND round trip, dataplane/verbs / libibverbs",
             RatioOfPairs("us", pairs, trip, bare_trip), "goal: at most 1.02");
  PrintRatio(name + ", 64 KiB WRITE bandwidth, dataplane/verbs / libibverbs",
             RatioOfPairs("MiB/s", pairs, stream, bare_stream), "goal: at least 0.98");
}

}  // namespace
}  // namespace rdmabroker::bench

int main(int argc, char** argv) {
  std::string device, address;
  int pairs = 20;
  CLI::App app{"dataplane/verbs beside the same loops on bare libibverbs."};
  app.add_option("--device", device, "One of the kernel's devices")->required();
  app.add_option("--address", address, "The device's IP address")->required();
  app.add_option("--pairs", pairs, "How often each loop runs")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto ip = rdmabroker::IpAddress::Parse(address);
  if (!ip.has_value()) rdmabroker::bench::Fail("--address is no IP address");
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure(device, *ip, pairs);
}
