// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_SERVER_CONNECTION_H_
#define PROTO_RPC_SERVER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "absl/time/time.h"
#include "proto/rpc/deadlines.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/http2.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/status.h"

namespace rdmabroker::rpc {

// How many requests a call of a method has: one, or any number.
enum class Requests { kOne, kMany };
// The keys are paths: "/rdmabroker.v1.Broker/Session".
using Methods = std::unordered_map<std::string, Requests>;

// A call has begun. For a method with one request, the request is complete.
struct CallBegan {
  CallId call = 0;
  std::string path;
  Headers headers;      // All of the client's header fields.
  std::string request;  // Empty if the method has many requests.
};
// Read's answer: one request, or nothing if the client has half-closed the call.
struct RequestArrived {
  CallId call = 0;
  std::optional<std::string> request;
};
// All replies that were sent have left in TakeOutput.
struct RepliesSent {
  CallId call = 0;
};
// The call has ended before Finish.
struct CallLost {
  enum class Why { kCancelled, kReset, kDeadline, kConnection };
  CallId call = 0;
  Why why = Why::kReset;  // kCancelled: RST_STREAM with CANCEL. kReset: any other error.
};
using ServerEvent = std::variant<CallBegan, RequestArrived, RepliesSent, CallLost>;

// The server's end of gRPC over one connection, without input or output. The caller carries the octets and says what
// time it is. Invalid calls are answered here, as docs/grpc.md describes. One thread.
class ServerConnection : private StreamListener {
 public:
  struct Limits {
    // The most octets of a request (broker.proto) and of a call's headers. C++'s and Python's clients ignore the limit
    // of headers that they are told, so a longer block gets a status; one of four times the limit ends the connection.
    size_t request = 65536;
    uint32_t header_block = 16384;
    // The most calls at a time: 64 unanswered requests of a client, its streams, and inspection.
    uint32_t calls = 128;
    // Flow control of requests (Inbound). A connection has at most 2.6 MiB of untaken requests, and 8 MiB before the
    // client acknowledges the settings.
    uint32_t window = 16384;
    size_t long_calls = 8;
    // While more octets of replies than this are queued, no new call begins. The connection is not ended, because a
    // well-behaved client may let 128 replies of 64 KiB wait: grpc-js gives a connection a window of 64 KiB.
    size_t unsent = 1 << 20;
    // The time in which a client must acknowledge the settings and a drain: a few round trips on a busy machine.
    absl::Duration patience = absl::Seconds(10);
  };

  // `methods` and `budget` must outlive it.
  ServerConnection(const Methods& methods, const Limits& limits, FrameBudget& budget, absl::Time now);

  // Same as the functions of Http2. Receive and TakeOutput may create events: call NextEvent after each of them.
  size_t Receive(std::string_view octets, absl::Time now);
  size_t TakeWeight() { return http2_.TakeWeight(); }
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const { return http2_.HasOutput(); }
  [[nodiscard]] bool IsDone() const { return http2_.IsDone(); }
  // Same as Http2::Drain. PassTime calls EndDrain if the client does not acknowledge in time.
  void Drain(absl::Time now);
  // Charges frames to this budget from now on. It must outlive the connection or the next call.
  void ChargeTo(FrameBudget& budget);
  // Same as the function of Http2.
  [[nodiscard]] const std::string& flood() const { return http2_.flood(); }
  // Ends the connection and all calls. The client may log `why`.
  void Terminate(uint32_t error, std::string_view why);
  // Ends all calls as kConnection, because the client has closed the connection.
  void Disconnected();

  // Returns the next event. A call has no event after Finish, Abandon or CallLost.
  std::optional<ServerEvent> NextEvent();

  // The functions below do nothing for a call that has not begun or has ended.
  // Asks for one request of a method with many. Another Read before its RequestArrived changes nothing.
  void Read(CallId call);
  // Queues a reply. RepliesSent follows when no reply is queued.
  void Send(CallId call, std::string_view reply);
  // Ends the call with this status, behind its queued replies.
  void Finish(CallId call, const Status& status);
  // Resets the call and drops its queued replies. Works after Finish, too.
  void Abandon(CallId call);

  // The most calls that one PassTime ends.
  static constexpr int kDeadlinesAtATime = 64;
  // Ends calls whose deadline has passed, a drain, and the connection of a client that does not acknowledge the
  // settings in time. Returns how many calls it has ended.
  int PassTime(absl::Time now);
  // When PassTime must be called next. It has passed if calls are left that PassTime must end.
  [[nodiscard]] std::optional<absl::Time> NextDeadline() const;

  // What the connection holds: calls that have not ended; streams, including those of ended calls whose replies are
  // queued; octets of untaken requests, of the headers of calls that have not begun (as HTTP/2 counts them), and of
  // queued replies.
  [[nodiscard]] size_t calls() const { return calls_.size(); }
  [[nodiscard]] size_t streams() const { return http2_.streams(); }
  [[nodiscard]] size_t unread() const { return inbound_.size(); }
  [[nodiscard]] size_t headers() const { return header_octets_ + http2_.header_block(); }
  [[nodiscard]] size_t unsent() const { return http2_.unsent(); }

 private:
  struct Call {
    Requests requests = Requests::kOne;
    Headers headers;           // Until the call has begun.
    size_t header_octets = 0;  // Of `headers`.
    bool begun = false;        // NextEvent has returned CallBegan.
    bool reads = false;        // Read waits for an answer.
    bool client_done = false;  // The client has half-closed the call.
    bool responded = false;
    bool replies_sent = false;  // RepliesSent is due.
    uint64_t turn = 0;          // Its key in new_ or ready_; 0 if it is in neither.
  };

  void HeadersArrived(CallId id, Headers headers, size_t octets) override;
  void TrailersArrived(CallId, Headers, size_t, bool) override {}
  void DataArrived(CallId id, std::string_view data) override;
  void PeerIsDone(CallId id) override;
  void AllSent(CallId id) override;
  void Closed(CallId id, uint32_t error) override;
  void PeerDrains() override {}

  // Why a call with these headers is refused; nothing if it is not.
  std::optional<Status> RefusalOf(const Headers& headers, size_t octets) const;
  void Begin(CallId id, Headers headers, size_t octets);
  // Ends a call with a status. Its owner gets CallLost.
  void Refuse(CallId id, const Status& status);
  void End(CallId id, bool responded, const Status& status);
  bool HasNews(CallId id, const Call& call) const;
  // Adds the call to new_ or ready_ if it has an event.
  void Note(CallId id, Call& call);
  // Returns the call's event.
  ServerEvent TakeNews(CallId id, Call& call);
  // The status for a fault in the data that has arrived; nothing if there is none.
  std::optional<Status> FaultOf(CallId id, const Call& call) const;
  // Refuses the call if it has a fault. Returns whether it has.
  bool RefuseFault(CallId id, const Call& call);
  // Returns null if NextEvent has not returned the call or the call has ended.
  Call* FindBegun(CallId id);
  void Forget(CallId id);
  // Erases a CallLost that NextEvent has not returned. Returns whether there was one.
  bool ForgetLoss(CallId id);
  // Erases the call, and queues a CallLost if it has begun.
  void Lose(CallId id, CallLost::Why why);

  const Methods& methods_;
  const Limits limits_;
  FrameBudget* budget_;
  Http2 http2_;
  Inbound inbound_;
  std::map<CallId, Call> calls_;
  // Calls with an event, in the order of the events: those that have not begun, and those that have.
  std::map<uint64_t, CallId> new_;
  std::map<uint64_t, CallId> ready_;
  size_t header_octets_ = 0;  // Of all calls.
  uint64_t last_turn_ = 0;
  bool holds_new_ = false;  // Calls in new_ wait because too many replies are queued.
  std::deque<CallLost> lost_;
  // Kept until the stream closes, because queued replies of a finished call might otherwise stay for ever.
  Deadlines deadlines_;
  absl::Time now_;
  absl::Time settings_deadline_;
  std::optional<absl::Time> drain_deadline_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_SERVER_CONNECTION_H_
