// SPDX-License-Identifier: Apache-2.0

// What a poll costs that finds nothing, by how many connections are idle. docs/benchmarks.md explains.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr int kManyConnections = 10'000;
constexpr int kSomeConnections = 100;
constexpr int kPolls = 100'000;

void Read(const UniqueFd& socket, void* bytes, size_t length) {
  Require(::recv(socket.get(), bytes, length, MSG_WAITALL) == static_cast<ssize_t>(length), "recv failed");
}

void Write(const UniqueFd& socket, const void* bytes, size_t length) {
  Require(::send(socket.get(), bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length), "send failed");
}

// Holds the peer's ends of so many connections until the other process ends.
void HoldEnds(const UniqueFd& socket, int connections) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Require(::listen(listener.get(), SOMAXCONN) == 0, "listen failed");
  sockaddr_in address = {};
  socklen_t length = sizeof address;
  Require(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname failed");
  Write(socket, &address.sin_port, sizeof address.sin_port);
  std::vector<UniqueFd> ends;
  for (int i = 0; i < connections; ++i) {
    ends.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Require(bool{ends.back()}, "accept4 failed");
  }
  char end = 0;
  Require(::recv(socket.get(), &end, 1, 0) == 0, "the other process did not end");
}

// Nanoseconds a poll.
double PollsOf(const UniqueFd& socket, int connections) {
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {::htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  Read(socket, &address.sin_port, sizeof address.sin_port);
  Adapter* const adapter = iwarp::OpenAdapter().object;
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  CompletionQueue* const cq = adapter->CreateCompletionQueue(16, nullptr).object;
  Require(cq != nullptr, "no completion queue");
  for (int i = 0; i < connections; ++i) {
    UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Require(::connect(own.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect failed");
    QueuePair* const queue_pair =
        domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1}).object;
    Require(queue_pair->Attach({std::move(own), iwarp::EncodeConnectionState({})}, {}) == NdkStatus::kSuccess,
            "Attach failed");
  }
  std::array<ResultEx, 16> results;
  const auto poll = [&](int times) {
    for (int i = 0; i < times; ++i) Require(cq->GetResultsEx(results) == 0, "a result");
  };
  poll(kPolls / 10);
  const auto start = std::chrono::steady_clock::now();
  poll(kPolls);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kPolls;
}

Contender Idle(int connections) {
  return {std::to_string(connections), [connections] {
            return RunPair([connections](UniqueFd socket) { HoldEnds(socket, connections); },
                           [connections](UniqueFd socket) { return PollsOf(socket, connections); });
          }};
}

void Measure() {
  auto ns = MediansOfAlternatingRuns("ns a poll", {Idle(1), Idle(kSomeConnections), Idle(kManyConnections)});
  const double one = ns[std::to_string(1)];
  PrintRatio("an empty poll at 100 idle connections / at one", ns[std::to_string(kSomeConnections)] / one, "reported");
  PrintRatio("an empty poll at 10,000 idle connections / at one", ns[std::to_string(kManyConnections)] / one,
             "goal: at most 3");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
