// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_SERVER_CONNECTION_H_
#define PROTO_RPC_SERVER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/http2.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/status.h"

namespace rdmabroker::rpc {

// What a method's clients send: one message, or any number.
enum class Requests { kOne, kMany };
// By paths: "/rdmabroker.v1.Broker/Session".
using Methods = std::unordered_map<std::string, Requests>;

// A call has begun; of a method with one request, when that is there.
struct CallBegan {
  CallId call = 0;
  std::string path;
  Headers headers;      // All that the client sent.
  std::string request;  // Empty where many follow.
};
// The message that Read has asked for; nothing where the client has sent all.
struct RequestArrived {
  CallId call = 0;
  std::optional<std::string> request;
};
// Nothing of what was sent waits any more.
struct RepliesSent {
  CallId call = 0;
};
// Nobody waits for the call's end any more.
struct CallLost {
  enum class Why { kCancelled, kReset, kDeadline, kConnection };
  CallId call = 0;
  Why why = Why::kReset;  // kCancelled: the client said so. kReset: for another reason.
};
using ServerEvent = std::variant<CallBegan, RequestArrived, RepliesSent, CallLost>;

// The server's end of gRPC over one connection, without input or output: octets and the time go in, octets and events
// come out. What a client sends that is wrong is answered here, as docs/grpc.md has it. It belongs to one thread.
class ServerConnection : private StreamListener {
 public:
  struct Limits {
    // Octets of a request (broker.proto), and of a call's headers: C++'s and Python's clients send more than they are
    // told to, so that a longer block is answered, and only one of four times that ends the connection.
    size_t request = 65536;
    uint32_t header_block = 16384;
    // Calls at a time: a client's unanswered requests, its streams and inspection.
    uint32_t calls = 128;
    // Octets of requests that have not been taken: `window` a call, and of long_calls at a time a whole request more;
    // 2.6 MiB of a connection, and 8 MiB until the client has acknowledged the settings. All calls of a client may be
    // half there at once.
    uint32_t window = 16384;
    size_t long_calls = 8;
    // Replies that wait for a client to read. From here on new calls wait, too; some clients lawfully let 128 replies
    // of 64 KiB wait, for grpc-js gives a connection 64 KiB of window.
    size_t unsent = 1 << 20;
    // For what a client has to acknowledge: a few round trips, and as many seconds of a machine that is busy.
    absl::Duration patience = absl::Seconds(10);
  };

  // `methods` and `budget` must outlive it.
  ServerConnection(const Methods& methods, const Limits& limits, FrameBudget& budget, absl::Time now);

  // As Http2::Receive, TakeOutput, HasOutput and IsDone. Each of the first two may lead to events: take those after it.
  size_t Receive(std::string_view octets, absl::Time now);
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const { return http2_.HasOutput(); }
  [[nodiscard]] bool IsDone() const { return http2_.IsDone(); }
  // As Http2::Drain; it ends by itself where the client does not acknowledge it.
  void Drain(absl::Time now);
  // Ends the connection and all calls, with these words for the client.
  void Terminate(uint32_t error, std::string_view why);
  // The client has closed the connection: all calls are lost.
  void Disconnected();

  // The next event. Of a call that was finished there are none, and none after CallLost.
  std::optional<ServerEvent> NextEvent();

  // These are for calls that have begun; one that is no more is ignored.
  // Asks for one request of many, or for their end. Before it is there, another Read changes nothing.
  void Read(CallId call);
  // Sends a reply. RepliesSent follows when all have left.
  void Send(CallId call, std::string_view reply);
  // Ends the call, behind the replies that wait.
  void Finish(CallId call, const Status& status);
  // Ends the call without a word. Replies that wait are dropped, those of a call that was finished, too.
  void Abandon(CallId call);

  // Ends calls whose deadline has passed, or the connection of a client that does not agree to the settings.
  void PassTime(absl::Time now);
  // When PassTime has something to do.
  [[nodiscard]] std::optional<absl::Time> NextDeadline() const;

  // What the client makes the broker keep: calls, octets of requests that were not taken and of replies that wait.
  [[nodiscard]] size_t calls() const { return calls_.size(); }
  [[nodiscard]] size_t unread() const { return inbound_.size(); }
  [[nodiscard]] size_t unsent() const { return http2_.unsent(); }

 private:
  struct Call {
    Requests requests = Requests::kOne;
    std::string path;
    Headers headers;
    bool begun = false;        // NextEvent has told of it.
    bool reads = false;        // Read waits for an answer.
    bool client_done = false;  // All requests are there.
    bool responded = false;
    bool replies_sent = false;  // To be told.
    uint64_t turn = 0;          // Its key in new_ or in ready_; 0: it has nothing to tell.
  };

  void HeadersArrived(CallId id, Headers headers, size_t octets) override;
  void TrailersArrived(CallId, Headers, size_t, bool) override {}
  void DataArrived(CallId id, std::string_view data) override;
  void PeerIsDone(CallId id) override;
  void AllSent(CallId id) override;
  void Closed(CallId id, uint32_t error) override;
  void PeerDrains() override {}

  // Why a call with these headers is not taken.
  std::optional<Status> RefusalOf(const Headers& headers, size_t octets) const;
  void Begin(CallId id, Headers headers);
  // Ends a call with a status before its owner does.
  void Refuse(CallId id, const Status& status);
  void End(CallId id, bool responded, const Status& status);
  bool HasNews(CallId id, const Call& call) const;
  // Puts the call among those that have something to tell, if it has.
  void Note(CallId id, Call& call);
  // What the call has to tell.
  ServerEvent TakeNews(CallId id, Call& call);
  // What is wrong with the requests that have arrived, or with their end.
  std::optional<Status> FaultOf(CallId id, const Call& call) const;
  // Refuses the call if anything is.
  bool RefuseFault(CallId id, const Call& call);
  // Null unless its owner knows of it.
  Call* FindBegun(CallId id);
  void Forget(CallId id);
  // Its owner has ended the call, and need not learn that it was lost. False: it was not.
  bool ForgetLoss(CallId id);
  void ForgetDeadline(CallId id);
  // Its owner learns that the call is no more.
  void Lose(CallId id, CallLost::Why why);

  const Methods& methods_;
  const Limits limits_;
  FrameBudget& budget_;
  Http2 http2_;
  Inbound inbound_;
  std::map<CallId, Call> calls_;
  // Calls with something to tell, in the order in which it came: those that have not begun, and the others.
  std::map<uint64_t, CallId> new_;
  std::map<uint64_t, CallId> ready_;
  uint64_t last_turn_ = 0;
  bool holds_new_ = false;  // Too many replies wait.
  std::deque<CallLost> lost_;
  // Of calls whose streams are open, those that were finished, too: their replies may wait for ever.
  std::map<CallId, absl::Time> deadline_of_;
  std::set<std::pair<absl::Time, CallId>> deadlines_;
  absl::Time now_;
  absl::Time settings_deadline_;
  std::optional<absl::Time> drain_deadline_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_SERVER_CONNECTION_H_
