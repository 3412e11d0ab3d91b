// SPDX-License-Identifier: Apache-2.0

// Bytes between two processes: user-space iWARP beside plain TCP, libfabric and UCX. docs/benchmarks.md explains.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "dataplane/iwarp/wire/connection_state.h"
#include "tests/bench/figures.h"
#include "tests/bench/iwarp_end.h"
#include "tests/bench/processes.h"

namespace rdmabroker::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMessage = 1 << 20;  // Bytes.
constexpr int kMessages = 1024;
constexpr int kWarmUpMessages = 64;
constexpr uint32_t kPing = 64;  // Bytes.
constexpr int kPings = 20'000;
constexpr int kWarmUpPings = 1'000;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A buffer that has its pages.
std::vector<uint8_t> Buffer() { return std::vector<uint8_t>(kMessage, 0x5A); }

void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Send(int socket, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) Fail("send");
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

void Receive(int socket, std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) Fail("recv");
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

// A stream runs twice, the first time to warm up; each time it ends with an answer of the one who has it all.

// With system calls of at most `piece` bytes.
double PlainStream(size_t piece) {
  const auto target = [](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    for (const int messages : {kWarmUpMessages, kMessages}) {
      for (int i = 0; i < messages; ++i) Receive(socket.get(), buffer);
      Send(socket.get(), std::span(buffer).first(1));
    }
  };
  const auto source = [piece](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    Clock::time_point start;
    for (const int messages : {kWarmUpMessages, kMessages}) {
      start = Clock::now();
      for (int i = 0; i < messages; ++i) {
        for (size_t at = 0; at < kMessage; at += piece) Send(socket.get(), std::span(buffer).subspan(at, piece));
      }
      Receive(socket.get(), std::span(buffer).first(1));
    }
    return kMessages / SecondsSince(start);
  };
  return RunPair(target, source);
}

double IwarpStream(bool crc) {
  const auto target = [crc](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    IwarpEnd end(std::move(socket), iwarp::Role::kResponder, crc, buffer, 2, 1);
    for (int i = 0; i < 2; ++i) {
      end.Await(OperationType::kReceive, 1);
      end.PostSend(1);
      end.Await(OperationType::kSend, 1);
    }
  };
  const auto source = [crc](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    IwarpEnd end(std::move(socket), iwarp::Role::kInitiator, crc, buffer, 2, 1);
    Clock::time_point start;
    for (const int messages : {kWarmUpMessages, kMessages}) {
      start = Clock::now();
      for (int i = 0; i < messages; ++i) {
        if (i >= kWindow) end.Await(OperationType::kWrite, 1);
        end.PostWrite(kMessage);
      }
      end.Await(OperationType::kWrite, std::min(messages, kWindow));
      end.PostSend(1);
      end.Await(OperationType::kReceive, 1);
    }
    return kMessages / SecondsSince(start);
  };
  return RunPair(target, source);
}

double PlainRoundTrip() {
  const auto target = [](UniqueFd socket) {
    std::vector<uint8_t> ping(kPing);
    for (int i = 0; i < kWarmUpPings + kPings; ++i) {
      Receive(socket.get(), ping);
      Send(socket.get(), ping);
    }
  };
  const auto source = [](UniqueFd socket) {
    std::vector<uint8_t> ping(kPing);
    Clock::time_point start;
    for (int i = 0; i < kWarmUpPings + kPings; ++i) {
      if (i == kWarmUpPings) start = Clock::now();
      Send(socket.get(), ping);
      Receive(socket.get(), ping);
    }
    return SecondsSince(start) / kPings * 1e6;
  };
  return RunPair(target, source);
}

// As fi_pingpong does it: the result of each send is taken, too, and a receive is posted for each one that was used.
double IwarpRoundTrip(bool crc) {
  const auto target = [crc](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    IwarpEnd end(std::move(socket), iwarp::Role::kResponder, crc, buffer, kWindow, kPing);
    for (int i = 0; i < kWarmUpPings + kPings; ++i) {
      end.Await(OperationType::kReceive, 1);
      end.PostSend(kPing);
      end.PostReceive(kPing);
      end.Await(OperationType::kSend, 1);
    }
  };
  const auto source = [crc](UniqueFd socket) {
    std::vector<uint8_t> buffer = Buffer();
    IwarpEnd end(std::move(socket), iwarp::Role::kInitiator, crc, buffer, kWindow, kPing);
    Clock::time_point start;
    for (int i = 0; i < kWarmUpPings + kPings; ++i) {
      if (i == kWarmUpPings) start = Clock::now();
      end.PostSend(kPing);
      end.PostReceive(kPing);
      end.Await(OperationType::kSend, 1);
      end.Await(OperationType::kReceive, 1);
    }
    return SecondsSince(start) / kPings * 1e6;
  };
  return RunPair(target, source);
}

// The `index`-th field of the last line of `text` that starts like a number.
double FieldOfLastLine(const std::string& text, size_t index) {
  std::istringstream lines(text);
  double figure = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::vector<std::string> words;
    for (std::string word; fields >> word;) words.push_back(word);
    if (words.size() > index && words[0].find_first_not_of("0123456789") == std::string::npos) {
      figure = std::strtod(words[index].c_str(), nullptr);
    }
  }
  if (figure <= 0) Fail("a peer's output is not as expected");
  return figure;
}

// The columns of fi_pingpong: bytes, sent, acknowledged, total, time, MB/s, microseconds per transfer, which is half a
// round trip, transfers per second.
double LibfabricRoundTrip() {
  const std::vector<std::string> common = {
      "fi_pingpong", "-p", "tcp", "-e", "msg", "-S", std::to_string(kPing), "-I", std::to_string(kPings)};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string text = RunPeer(
      "fi_pingpong",
      [&](const std::string& port) {
        return with({"-B", port});
      },
      [&](const std::string& port) {
        return with({"-P", port, "127.0.0.1"});
      });
  return 2 * FieldOfLastLine(text, 6);
}

// The columns of ucx_perftest: iterations; microseconds as percentile, average and overall average; MB/s, and messages
// a second, each as average of late and overall.
double UcxPerftest(const std::string& name, const std::string& test, uint32_t size, int count, int warm_up,
                   size_t column) {
  const std::string text = RunPeer(
      name,
      [](const std::string& port) {
        return std::vector<std::string>{"ucx_perftest", "-p", port};
      },
      [&](const std::string& port) {
        return std::vector<std::string>{"ucx_perftest",
                                        "127.0.0.1",
                                        "-p",
                                        port,
                                        "-t",
                                        test,
                                        "-s",
                                        std::to_string(size),
                                        "-n",
                                        std::to_string(count),
                                        "-w",
                                        std::to_string(warm_up),
                                        "-f"};
      });
  return FieldOfLastLine(text, column);
}

void Streams() {
  auto medians = MediansOfAlternatingRuns(
      "MiB/s",
      {{"plain TCP stream, a call for 1 MiB", [] { return PlainStream(kMessage); }},
       {"plain TCP stream, a call for 64 KiB", [] { return PlainStream(kMessage / 16); }},
       {"iWARP WRITE with CRC", [] { return IwarpStream(true); }},
       {"iWARP WRITE without CRC", [] { return IwarpStream(false); }},
       {"UCX put", [] { return UcxPerftest("ucx_put_bw", "ucp_put_bw", kMessage, kMessages, kWarmUpMessages, 5); }}});
  // The better of two ways of writing a stream: that of whoever has 1 MiB to send, and the pieces that iWARP sends.
  const double plain =
      std::max(medians["plain TCP stream, a call for 1 MiB"], medians["plain TCP stream, a call for 64 KiB"]);
  const double ucx = medians["UCX put"];
  const double with_crc = medians["iWARP WRITE with CRC"], without_crc = medians["iWARP WRITE without CRC"];
  PrintRatio("data path, 1 MiB WRITE with CRC / plain TCP stream", with_crc / plain, "goal: at least 0.6");
  PrintRatio("data path, 1 MiB WRITE without CRC / plain TCP stream", without_crc / plain, "goal: at least 0.85");
  PrintRatio("data path, 1 MiB WRITE with CRC / UCX put over TCP", with_crc / ucx, "goal: above 1");
  PrintRatio("data path, 1 MiB WRITE without CRC / UCX put over TCP", without_crc / ucx, "goal: above 1");
}

void RoundTrips() {
  auto medians = MediansOfAlternatingRuns(
      "us",
      {{"plain TCP round trip", PlainRoundTrip},
       {"iWARP SEND round trip with CRC", [] { return IwarpRoundTrip(true); }},
       {"iWARP SEND round trip without CRC", [] { return IwarpRoundTrip(false); }},
       {"libfabric round trip", LibfabricRoundTrip},
       {"UCX round trip", [] { return 2 * UcxPerftest("ucx_tag_lat", "tag_lat", kPing, kPings, kWarmUpPings, 3); }}});
  const double with_crc = medians["iWARP SEND round trip with CRC"];
  PrintRatio("data path, 64-byte SEND round trip with CRC / libfabric tcp", with_crc / medians["libfabric round trip"],
             "goal: at most 1.5");
  PrintRatio("data path, 64-byte SEND round trip without CRC / libfabric tcp",
             medians["iWARP SEND round trip without CRC"] / medians["libfabric round trip"], "goal: at most 1.5");
  PrintRatio("data path, 64-byte SEND round trip with CRC / UCX over TCP", with_crc / medians["UCX round trip"],
             "reported");
  PrintRatio("data path, 64-byte SEND round trip with CRC / plain TCP round trip",
             with_crc / medians["plain TCP round trip"], "reported");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() {
  // For UCX: the transport that is compared.
  ::setenv("UCX_TLS", "tcp", 1);
  ::setenv("UCX_NET_DEVICES", "lo", 1);
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Streams();
  rdmabroker::bench::RoundTrips();
  rdmabroker::bench::PrintCircumstances();
}
