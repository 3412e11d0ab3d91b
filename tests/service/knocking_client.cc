// SPDX-License-Identifier: Apache-2.0

// New connections of a device with itself, one after the other, made by a broker:
//
//   knocking_client --socket SOCKET --device DEVICE --address IP --at-once K
//
// Until SIGTERM. At SIGUSR1 and in the end it prints how many requests to connect have ended in each way since it did
// so for the last time, "N STATUS" a line, and the longest wait for one to succeed. Exit status: 0 where some have
// succeeded.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/blocking.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr examples::ConnectionShape kShape = {.patience = std::chrono::minutes(2)};
// Between a connection's end and the next request, so that the machine has time for others, too.
constexpr std::chrono::milliseconds kPause{100};
// After which it is seen that there is nobody any more to wait for.
constexpr std::chrono::milliseconds kLook{100};

struct Options {
  std::string socket;
  std::string device;
  std::string address;
  int at_once = 2;
};

// What becomes of requests. Any thread.
class Tally {
 public:
  // Before each request.
  void NoteBegin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !printing_; });
    ++under_way_;
  }
  void NoteEnd(const client::Outcome& outcome, Clock::duration wait) {
    const std::lock_guard lock(mutex_);
    --under_way_;
    changed_.notify_all();
    ++counts_[outcome.status];
    if (outcome.ok()) {
      some_have_succeeded_ = true;
      longest_ = std::max(longest_, wait);
    } else {
      std::cout << StatusName(outcome.status) << ": " << outcome.hint << std::endl;
    }
  }
  // Waits for the end of all that have begun, so that what has happened until now is on no later account.
  void PrintAndClear() {
    std::unique_lock lock(mutex_);
    printing_ = true;
    changed_.wait(lock, [this] { return under_way_ == 0; });
    for (const auto& [status, count] : counts_) std::cout << count << " " << StatusName(status) << std::endl;
    const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(longest_);
    std::cout << "the longest wait was " << longest.count() << " ms" << std::endl;
    counts_.clear();
    longest_ = {};
    printing_ = false;
    changed_.notify_all();
  }
  // Ever.
  bool some_have_succeeded() {
    const std::lock_guard lock(mutex_);
    return some_have_succeeded_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<NdkStatus, int> counts_;  // Guarded by mutex_, as all that follows.
  Clock::duration longest_{0};
  bool some_have_succeeded_ = false;
  int under_way_ = 0;
  bool printing_ = false;  // None begins.
};

// Both ends of one connection after the other.
class Knocking {
 public:
  Knocking(const examples::OpenedDevice& server, const examples::OpenedDevice& client, const SocketAddress& address)
      : server_(server.adapter), client_(client.adapter), source_{address.ip, 0} {
    auto [listening, listener] = client::BlockingListener::Listen(server_, address);
    status_ = examples::Report("listen", listening);
    listener_ = std::move(listener);
  }

  // Of the listener.
  const absl::Status& status() const { return status_; }

  void Start(int at_once) {
    for (int i = 0; i < at_once; ++i) {
      answering_.emplace_back([this] { Answer(); });
      knocking_.emplace_back([this] { Knock(); });
    }
  }
  void Stop() {
    stopping_ = true;
    for (std::thread& thread : knocking_) thread.join();
    nobody_knocks_ = true;
    for (std::thread& thread : answering_) thread.join();
  }
  Tally& tally() { return tally_; }

 private:
  void Answer() {
    while (!nobody_knocks_) {
      auto [arrived, connector] = listener_->Next(kLook);
      if (!arrived.ok()) continue;
      const auto connection = examples::Connection::Make(server_, kShape);
      // Whoever knocks says what has become of it.
      if (!connection.ok() || !(*connection)->Accept(std::move(connector)).ok()) continue;
      if ((*connection)->AwaitDisconnect().ok()) (void)(*connection)->Disconnect();
    }
  }
  void Knock() {
    while (!stopping_) {
      tally_.NoteBegin();
      const auto connection = examples::Connection::Make(client_, kShape);
      if (!connection.ok()) {
        tally_.NoteEnd({.status = NdkStatus::kInsufficientResources, .hint = connection.status().ToString()}, {});
        return;
      }
      const Clock::time_point start = Clock::now();
      const absl::Status connected = (*connection)->Connect(source_, listener_->address());
      tally_.NoteEnd((*connection)->handshake(), Clock::now() - start);
      if (connected.ok()) (void)(*connection)->Disconnect();
      if ((*connection)->handshake().status == NdkStatus::kConnectionDisconnected) return;  // The session is over.
      std::this_thread::sleep_for(kPause);
    }
  }

  const std::shared_ptr<client::Adapter> server_;
  const std::shared_ptr<client::Adapter> client_;
  const SocketAddress source_;
  absl::Status status_;
  std::unique_ptr<client::BlockingListener> listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> nobody_knocks_ = false;
  std::vector<std::thread> answering_;
  std::vector<std::thread> knocking_;
  Tally tally_;
};

absl::Status Run(const Options& options) {
  // Before there are other threads, so that none of them takes it.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto ip = IpAddress::Parse(options.address);
  if (!ip) return absl::InvalidArgumentError("--address is no IP address");
  const auto server = examples::OpenDevice(options.socket, options.device);
  if (!server.ok()) return server.status();
  const auto client = examples::OpenDevice(options.socket, options.device);
  if (!client.ok()) return client.status();
  absl::Status result;
  {
    Knocking knocking(*server, *client, {*ip, 0});
    if (!knocking.status().ok()) return knocking.status();
    knocking.Start(options.at_once);
    int signal = 0;
    while (::sigwait(&signals, &signal) == 0 && signal == SIGUSR1) knocking.tally().PrintAndClear();
    knocking.Stop();
    knocking.tally().PrintAndClear();
    if (!knocking.tally().some_have_succeeded()) result = absl::UnavailableError("nobody was let in");
  }
  client::BlockingClose(server->adapter);
  client::BlockingClose(client->adapter);
  return result;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  rdmabroker::Options options;
  CLI::App app{"New connections all the time."};
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--device", options.device, "The device")->required();
  app.add_option("--address", options.address, "One of its addresses")->required();
  app.add_option("--at-once", options.at_once, "How many are under way at a time")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = rdmabroker::Run(options);
  if (!result.ok()) std::cout << "failed: " << result.message() << std::endl;
  return result.ok() ? 0 : 1;
}
