// SPDX-License-Identifier: Apache-2.0

// A hostile server, and a client that makes the calls that the input says.

#include "proto/rpc/client_connection.h"

#include <string>
#include <unordered_set>
#include <variant>

#include "proto/rpc/testing/ends.h"
#include "proto/rpc/testing/frames.h"
#include "proto/rpc/testing/fuzzed_frames.h"
#include "tests/fuzz.h"

namespace rdmabroker::rpc {
namespace {

class Client {
 public:
  Client() { Give(connection_, Frame(NGHTTP2_SETTINGS, 0, 0, ""), kStart); }

  void Receive(const std::string& octets) { Give(connection_, octets, now_); }

  // Does one thing that a client may do.
  void Act(FuzzInput& input) {
    const uint8_t act = input.Byte();
    const CallId call = input.Byte() % 16;
    switch (act % 8) {
      case 0:
        Begin(input);
        return;
      case 1:
        return connection_.Send(call, std::string(input.Byte() * 64, 'q'));
      case 2:
        return connection_.EndRequests(call);
      case 3:
        return connection_.Read(call);
      case 4:
        return connection_.Cancel(call);
      case 5:
        now_ += absl::Milliseconds(input.Byte());
        return connection_.PassTime(now_);
      default:
        connection_.TakeOutput();
    }
  }

  void TakeEvents() {
    while (auto event = connection_.NextEvent()) std::visit([this](const auto& told) { Told(told); }, *event);
  }

  void End() {
    connection_.Disconnected();
    TakeEvents();
    // A call ends once its replies are read; its window of 1024 octets holds 204 at most.
    for (int reply = 0; reply <= 1024 && !open_.empty(); ++reply) {
      for (int call = 1; call < 512; call += 2) connection_.Read(call);
      TakeEvents();
    }
    Require(open_.empty(), "each call has an end");
  }

 private:
  void Begin(FuzzInput& input) {
    const CallId call =
        connection_.Begin({.path = "/test/Many", .timeout = absl::Milliseconds(input.Byte() + 1)}, now_);
    if (call != 0) Require(open_.insert(call).second, "each call has an id of its own");
  }
  void Told(const ReplyArrived& arrived) { Require(open_.contains(arrived.call), "replies are of open calls"); }
  void Told(const RequestsSent& sent) { Require(open_.contains(sent.call), "requests are of open calls"); }
  void Told(const CallFinished& finished) { Require(open_.erase(finished.call) == 1, "a call ends once"); }

  absl::Time now_ = kStart;
  ClientConnection connection_{{.reply = 4096, .window = 1024}};
  std::unordered_set<CallId> open_;
};

}  // namespace
}  // namespace rdmabroker::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  const rpc::Headers headers = {{":status", "200"}, {"content-type", "application/grpc"}};
  FuzzInput input(data, size);
  rpc::Client client;
  while (!input.empty()) {
    const uint8_t turn = input.Byte();
    if (turn % 2 == 0) {
      client.Receive(rpc::FuzzedOctets(input, turn % 4 == 0 ? headers : rpc::Headers{{"grpc-status", "0"}}));
    } else {
      client.Act(input);
    }
    if (turn % 8 < 6) client.TakeEvents();
  }
  client.End();
  return 0;
}
