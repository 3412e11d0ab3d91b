// SPDX-License-Identifier: Apache-2.0

// Many clients of one broker in one process, each with a session, a connection to the broker, a thread and a queue pair
// of its own. Its arguments are the control socket, the device and how many. It obeys lines of its input, one after the
// other, and says one line to each:
//
//   (at first)            done
//   listen ADDRESS        the address with its port; the first client accepts all who come there, from now on
//   connect ADDRESS       done TIME...: each has a connection to there, and when it had it
//   ask                   done TIME...: each has asked for something that needs nothing but the broker, and has got it
//   losses                done COUNT: connections and sessions that have ended, of which there should be none
//
// or "failed" with the cause. Times are CLOCK_MONOTONIC's, in nanoseconds.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/adapter.h"
#include "client/blocking.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/session.h"
#include "dataplane/adapter.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/descriptor_limit.h"

namespace rdmabroker {
namespace {

using client::Outcome;

// Far longer than a storm takes on a busy machine.
constexpr std::chrono::minutes kPatience(2);

int64_t Now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Text(const Outcome& outcome) { return std::string(StatusName(outcome.status)) + " " + outcome.hint; }

// Connections and sessions that have ended.
std::atomic<int> losses = 0;

// What has come of what all were to do.
class Results {
 public:
  void Note(const Outcome& outcome) {
    const std::lock_guard lock(mutex_);
    times_.push_back(Now());
    if (!outcome.ok() && failure_.empty()) failure_ = Text(outcome);
    changed_.notify_one();
  }
  // Of a call that completes later, unless it has failed at once.
  void NoteUnlessPending(NdkStatus status) {
    if (status != NdkStatus::kPending) Note({.status = status, .hint = "at once"});
  }

  std::string Await(size_t count) {
    std::unique_lock lock(mutex_);
    const bool all = changed_.wait_for(lock, kPatience, [&] { return times_.size() >= count; });
    if (!all) return "failed: " + std::to_string(times_.size()) + " of " + std::to_string(count) + " are done";
    if (!failure_.empty()) return "failed " + failure_;
    std::ostringstream line("done", std::ios::ate);
    for (const int64_t time : times_) line << " " << time;
    times_.clear();
    return line.str();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> times_;
  std::string failure_;
};

class Member {
 public:
  Outcome Open(const std::string& socket, const std::string& device) {
    client::SessionOptions options;
    options.control_socket = socket;
    options.open_timeout = std::chrono::seconds(60);
    options.on_end = [](const Outcome&) { ++losses; };
    auto opening = client::Session::Open(std::move(options));
    if (!opening.outcome.ok()) return opening.outcome;
    session_ = std::move(opening.session);
    auto [outcome, adapter] = client::BlockingOpenAdapter(*session_, device);
    if (!outcome.ok()) return outcome;
    adapter_ = std::move(adapter);
    domain_ = adapter_->data()->CreateProtectionDomain().object;
    return outcome;
  }

  void Connect(const SocketAddress& to, Results& results) {
    results.NoteUnlessPending(adapter_->CreateConnector(
        [this, to, &results](const Outcome& outcome, std::shared_ptr<client::Connector> connector) {
          if (!outcome.ok()) return results.Note(outcome);
          connectors_.push_back(std::move(connector));
          results.NoteUnlessPending(connectors_.back()->Connect(
              NewQueuePair(), {.source = {to.ip, 0}, .destination = to, .limits = {}, .private_data = {}},
              [this, &results](const Outcome& connected) { Complete(connected, results); }));
        }));
  }

  void Ask(Results& results) {
    results.NoteUnlessPending(adapter_->CreateConnector(
        [&results](const Outcome& outcome, const std::shared_ptr<client::Connector>& connector) {
          if (outcome.ok()) connector->Close({});
          results.Note(outcome);
        }));
  }

  std::string Listen(const IpAddress& ip) {
    Results listening;
    listening.NoteUnlessPending(
        adapter_->CreateListener([this](const std::shared_ptr<client::Connector>& connector) { Accept(connector); },
                                 [&, this](const Outcome& outcome, std::shared_ptr<client::Listener> listener) {
                                   if (!outcome.ok()) return listening.Note(outcome);
                                   listener_ = std::move(listener);
                                   listening.NoteUnlessPending(listener_->Listen(
                                       SocketAddress{ip, 0}, [&](const Outcome& done) { listening.Note(done); }));
                                 }));
    const std::string done = listening.Await(1);
    return listener_ != nullptr && listener_->address() ? listener_->address()->ToString() : done;
  }

 private:
  static void NoteLoss(const client::DisconnectEvent&) { ++losses; }

  void Complete(const Outcome& connected, Results& results) {
    if (!connected.ok()) return results.Note(connected);
    results.NoteUnlessPending(
        connectors_.back()->CompleteConnect(NoteLoss, [&results](const Outcome& done) { results.Note(done); }));
  }

  // What goes wrong here the peer tells.
  void Accept(const std::shared_ptr<client::Connector>& connector) {
    connectors_.push_back(connector);
    connector->Accept(NewQueuePair(), {}, NoteLoss, [](const Outcome&) {});
  }

  // Through which nothing is sent.
  QueuePair* NewQueuePair() {
    CompletionQueue* const queue = adapter_->data()->CreateCompletionQueue(1, {}).object;
    return domain_
        ->CreateQueuePair({.receive_cq = queue,
                           .initiator_cq = queue,
                           .receive_queue_depth = 1,
                           .initiator_queue_depth = 1,
                           .max_receive_request_sge = 1,
                           .max_initiator_request_sge = 1})
        .object;
  }

  std::unique_ptr<client::Session> session_;
  std::shared_ptr<client::Adapter> adapter_;
  ProtectionDomain* domain_ = nullptr;
  std::shared_ptr<client::Listener> listener_;
  std::vector<std::shared_ptr<client::Connector>> connectors_;
};

class CrowdProcess {
 public:
  std::string Open(const std::string& socket, const std::string& device, size_t count) {
    members_ = std::vector<Member>(count);
    for (Member& member : members_) {
      if (const Outcome opened = member.Open(socket, device); !opened.ok()) return "failed " + Text(opened);
    }
    return "done";
  }

  std::string Obey(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string order = line.substr(0, space);
    const auto address = SocketAddress::Parse(line.substr(std::min(space + 1, line.size())));
    if (order == "losses") return "done " + std::to_string(losses);
    if (order == "listen" && address) return members_.front().Listen(address->ip);
    if (order != "ask" && (order != "connect" || !address)) return "failed to understand " + line;
    for (Member& member : members_) order == "ask" ? member.Ask(results_) : member.Connect(*address, results_);
    return results_.Await(members_.size());
  }

 private:
  std::vector<Member> members_;
  Results results_;
};

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  rdmabroker::RaiseDescriptorLimit();
  // Never destroyed: its clients die with the process.
  auto* const crowd = new rdmabroker::CrowdProcess;
  std::cout << crowd->Open(argv[1], argv[2], std::stoul(argv[3])) << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << crowd->Obey(line) << std::endl;
  std::_Exit(0);
}
