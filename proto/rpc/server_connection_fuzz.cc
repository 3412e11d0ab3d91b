// SPDX-License-Identifier: Apache-2.0

// A hostile client, and a server that does with its calls whatever the input says.

#include "proto/rpc/server_connection.h"

#include <string>
#include <unordered_set>
#include <variant>

#include "proto/rpc/testing/ends.h"
#include "proto/rpc/testing/frames.h"
#include "proto/rpc/testing/fuzzed_frames.h"
#include "tests/fuzz.h"

namespace rdmabroker::rpc {
namespace {

class Server {
 public:
  Server() { Give(connection_, Preface(), kStart); }

  void Receive(const std::string& octets) { Give(connection_, octets, now_); }

  // Does one thing that a server may do.
  void Act(FuzzInput& input) {
    const uint8_t act = input.Byte();
    const CallId call = input.Byte() % 16;
    switch (act % 8) {
      case 0:
        return connection_.Read(call);
      case 1:
        return connection_.Send(call, std::string(input.Byte() * 64, 'r'));
      case 2:
        connection_.Finish(call, {.code = absl::StatusCode::kAborted, .message = PieceOf(input, 8)});
        open_.erase(call);
        return;
      case 3:
        connection_.Abandon(call);
        open_.erase(call);
        return;
      case 4:
        now_ += absl::Milliseconds(input.Byte() * 50);
        connection_.PassTime(now_);
        Require(connection_.NextDeadline().value_or(absl::InfiniteFuture()) > now_, "what has passed does not stay");
        return;
      case 5:
        return connection_.Drain(now_);
      default:
        connection_.TakeOutput();
    }
  }

  void TakeEvents() {
    while (auto event = connection_.NextEvent()) std::visit([this](const auto& told) { Told(told); }, *event);
  }

  void Check() const {
    Require(connection_.calls() <= 128, "a client has no more calls than it may have");
    // Until it has agreed to the settings, a client has HTTP/2's own window.
    Require(connection_.unread() <= 128 * 65535 + 8 * 65541, "what is kept of requests has a bound");
  }

  void End() {
    connection_.Disconnected();
    TakeEvents();
    Require(open_.empty(), "each call that was told of has an end");
    Require(connection_.calls() == 0 && connection_.unread() == 0, "nothing is kept");
  }

 private:
  void Told(const CallBegan& began) {
    Require(told_.insert(began.call).second, "a call begins once");
    Require(TestMethods().contains(began.path), "a call is of a method that there is");
    open_.insert(began.call);
  }
  void Told(const RequestArrived& arrived) { Require(open_.contains(arrived.call), "requests are of open calls"); }
  void Told(const RepliesSent& sent) { Require(open_.contains(sent.call), "replies are of open calls"); }
  void Told(const CallLost& lost) {
    Require(open_.erase(lost.call) == 1, "a call is lost once, and only while it is open");
  }

  absl::Time now_ = kStart;
  FrameBudget budget_{{}, kStart};
  ServerConnection connection_{TestMethods(), {}, budget_, kStart};
  std::unordered_set<CallId> told_;
  std::unordered_set<CallId> open_;
};

}  // namespace
}  // namespace rdmabroker::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  FuzzInput input(data, size);
  rpc::Server server;
  while (!input.empty()) {
    const uint8_t turn = input.Byte();
    if (turn % 2 == 0) {
      server.Receive(rpc::FuzzedOctets(input, rpc::CallHeaders(turn % 4 == 0 ? "/test/One" : "/test/Many")));
    } else {
      server.Act(input);
    }
    if (turn % 8 < 6) server.TakeEvents();
    server.Check();
  }
  server.End();
  return 0;
}
