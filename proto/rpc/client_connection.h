// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_CLIENT_CONNECTION_H_
#define PROTO_RPC_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/time/time.h"
#include "proto/rpc/deadlines.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/http2.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/status.h"

namespace rdmabroker::rpc {

// Read's answer: one reply.
struct ReplyArrived {
  CallId call = 0;
  std::string reply;
};
// All requests that were sent have left in TakeOutput. There is no such event after EndRequests.
struct RequestsSent {
  CallId call = 0;
};
// The call has ended. It is the last event of a call, and comes after all its replies.
struct CallFinished {
  CallId call = 0;
  Status status;
};
using ClientEvent = std::variant<ReplyArrived, RequestsSent, CallFinished>;

// The client's end of gRPC over one connection, without input or output. The caller carries the octets and says what
// time it is. One thread.
class ClientConnection : private StreamListener {
 public:
  struct Limits {
    // The most octets of a reply: the default of gRPC's clients.
    size_t reply = 4 << 20;
    uint32_t header_block = 16384;
    // The most octets of unread replies on a call. A longer reply still arrives whole.
    uint32_t window = 65535;
  };
  struct Start {
    std::string path;  // "/rdmabroker.v1.Broker/Session".
    std::string authority = "localhost";
    std::optional<absl::Duration> timeout;  // Zero or less: the next PassTime ends the call.
    Headers metadata;                       // Names must be lower-case.
  };

  explicit ClientConnection(const Limits& limits);

  // Same as the functions of Http2. Receive and TakeOutput may create events: call NextEvent after each of them.
  size_t Receive(std::string_view octets, absl::Time now);
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const { return http2_.HasOutput(); }
  [[nodiscard]] bool IsDone() const { return http2_.IsDone(); }
  // Ends all calls as UNAVAILABLE, because the server has closed the connection.
  void Disconnected();
  // Whether Begin can start calls. It cannot while the server drains; open calls continue.
  [[nodiscard]] bool TakesCalls() const { return !http2_.IsTerminated() && !http2_.PeerDrains(); }

  std::optional<ClientEvent> NextEvent();

  // Starts a call. Returns 0 if TakesCalls is false.
  CallId Begin(const Start& start, absl::Time now);
  // The functions below do nothing for a call that has ended.
  void Send(CallId call, std::string_view request);
  // Half-closes the call: no request follows.
  void EndRequests(CallId call);
  // Asks for one reply. Another Read before its ReplyArrived changes nothing.
  void Read(CallId call);
  // Ends the call and drops its unread replies. CallFinished follows, with CANCELLED unless the server has sent a
  // status.
  void Cancel(CallId call);

  // Ends calls whose deadline has passed.
  void PassTime(absl::Time now);
  // When PassTime must be called next.
  [[nodiscard]] std::optional<absl::Time> NextDeadline() const { return deadlines_.Next(); }

 private:
  struct Call {
    std::optional<Status> status;  // From the server. The event waits until all replies are read.
    bool answered = false;         // The response's headers have arrived and are gRPC's.
    bool reads = false;
    bool requests_sent = false;
    bool noted = false;  // In ready_.
  };

  void HeadersArrived(CallId id, Headers headers, size_t octets) override;
  void TrailersArrived(CallId id, Headers trailers, size_t octets, bool last) override;
  void DataArrived(CallId id, std::string_view data) override;
  void PeerIsDone(CallId id) override;
  void AllSent(CallId id) override;
  void Closed(CallId id, uint32_t error) override;
  void PeerDrains() override;

  Call* FindCall(CallId id);
  void DropReplies(CallId id);
  // Ends the call with this status and drops its unread replies. Does nothing if it has a status.
  void Fail(CallId id, Status status);
  // Fail, and resets the stream.
  void Break(CallId id, Status status);
  void BreakFault(CallId id);
  void Note(CallId id, Call& call);

  const Limits limits_;
  Http2 http2_;
  Inbound inbound_;
  std::map<CallId, Call> calls_;
  std::deque<CallId> ready_;  // Calls that may have something to tell.
  Deadlines deadlines_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_CLIENT_CONNECTION_H_
