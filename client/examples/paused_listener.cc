// SPDX-License-Identifier: Apache-2.0

// A listener that is paused under load and resumed. While it is paused, peers are refused as if nobody listened, and
// may try again; who was delivered before is served. The address stays the listener's, and nobody is lost.

#include <array>
#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "client/examples/roles.h"

namespace rdmabroker::examples {
namespace {

constexpr ConnectionShape kShape = {.message_size = 64};
constexpr int kWorkers = 4;                                     // Of a client, at the same time.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(20);  // Less would only keep the broker busy.
constexpr int kMostRetries = 3000;                              // A minute.

// A connection's whole life. False: none has come in that time.
absl::StatusOr<bool> ServeNext(const Task& task, client::BlockingListener& listener,
                               std::chrono::milliseconds patience) {
  auto [arrived, connector] = listener.Next(patience);
  if (arrived.status == NdkStatus::kIoTimeout) return false;
  if (!arrived.ok()) return Report("listener", arrived);
  auto connection = Connection::Make(task.adapter, kShape);
  if (!connection.ok()) {
    client::BlockingClose(connector);
    return connection.status();
  }
  absl::Status status = (*connection)->Accept(std::move(connector));
  if (!status.ok()) return status;
  if (const auto question = (*connection)->Echo(); !question.ok()) return question.status();
  return true;
}

absl::Status Serve(const Task& task) {
  const auto made = Listen(task);
  if (!made.ok()) return made.status();
  client::BlockingListener& listener = **made;
  uint32_t served = 0;
  const auto serve = [&](uint32_t until, std::chrono::milliseconds patience) -> absl::Status {
    while (served < until) {
      const auto next = ServeNext(task, listener, patience);
      if (!next.ok()) return next.status();
      if (!*next) break;
      ++served;
    }
    return absl::OkStatus();
  };
  if (absl::Status status = serve(task.count / 2, std::chrono::hours(1)); !status.ok()) return status;

  listener.listener()->ControlConnectEvents(true);
  const uint32_t before = served;
  if (absl::Status status = serve(task.count, std::chrono::milliseconds(0)); !status.ok()) return status;
  std::cout << "server: paused after " << before << " peers; served " << served - before
            << " that had come before; a line on standard input resumes" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  if (const auto late = ServeNext(task, listener, std::chrono::milliseconds(0)); !late.ok() || *late) {
    return late.ok() ? absl::InternalError("somebody has come through a paused listener") : late.status();
  }

  listener.listener()->ControlConnectEvents(false);
  std::cout << "server: resumed" << std::endl;
  if (absl::Status status = serve(task.count, std::chrono::minutes(1)); !status.ok()) return status;
  std::cout << "server: " << served << " peers served" << std::endl;
  return served == task.count ? absl::OkStatus() : absl::DeadlineExceededError("no more peers have come");
}

// What all workers have seen.
struct Load {
  const Task& task;
  std::atomic<uint32_t> begun = 0;
  std::atomic<uint32_t> refused = 0;
};

absl::StatusOr<std::unique_ptr<Connection>> ConnectAtLast(Load& load) {
  for (int tries = 0;; ++tries) {
    auto connection = Connection::Make(load.task.adapter, kShape);
    if (!connection.ok()) return connection.status();
    absl::Status status = (*connection)->Connect(load.task.address, load.task.servers.front());
    if (status.ok()) return connection;
    const client::Outcome& outcome = (*connection)->handshake();
    if (outcome.status != NdkStatus::kConnectionRefused || !outcome.retryable || tries == kMostRetries) return status;
    if (load.refused++ == 0)
      std::cout << absl::StrCat("client: refused, trying on: ", status.message(), "\n") << std::flush;
    absl::SleepFor(kRetryAfter);
  }
}

absl::Status Work(Load& load) {
  for (uint32_t i = load.begun++; i < load.task.count; i = load.begun++) {
    auto connection = ConnectAtLast(load);
    if (!connection.ok()) return connection.status();
    if (absl::Status asked = (*connection)->ExpectEcho(absl::StrCat("peer ", i)); !asked.ok()) return asked;
    if (absl::Status ended = (*connection)->Disconnect(); !ended.ok()) return ended;
  }
  return absl::OkStatus();
}

absl::Status ConnectAgainAndAgain(const Task& task) {
  Load load{task};
  std::array<absl::Status, kWorkers> ends;
  std::array<std::thread, kWorkers> workers;
  for (int i = 0; i < kWorkers; ++i) workers[i] = std::thread([&load, &end = ends[i]] { end = Work(load); });
  for (std::thread& worker : workers) worker.join();
  for (const absl::Status& end : ends) {
    if (!end.ok()) return end;
  }
  std::cout << "client: all " << task.count << " connections served; refused " << load.refused << " times" << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  using namespace rdmabroker::examples;
  return Main(argc, argv, "Pauses a listener amid its peers' connects, and resumes it.",
              {Serve, "How many peers; it pauses after half of them", 40},
              {ConnectAgainAndAgain, "How many connects", 40});
}
