// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_CLIENT_CONNECTION_H_
#define PROTO_RPC_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/http2.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/status.h"

namespace rdmabroker::rpc {

// The reply that Read has asked for.
struct ReplyArrived {
  CallId call = 0;
  std::string reply;
};
// Nothing of what was sent waits any more. Not told after EndRequests.
struct RequestsSent {
  CallId call = 0;
};
// The call is over, and all its replies have been told.
struct CallFinished {
  CallId call = 0;
  Status status;
};
using ClientEvent = std::variant<ReplyArrived, RequestsSent, CallFinished>;

// The client's end of gRPC over one connection, without input or output, as ServerConnection is the server's. It
// belongs to one thread.
class ClientConnection : private StreamListener {
 public:
  struct Limits {
    // Octets of a reply; gRPC's clients take as many by default.
    size_t reply = 4 << 20;
    uint32_t header_block = 16384;
    // Octets that a server may send on a call before they are read. A longer reply may always arrive whole.
    uint32_t window = 65535;
  };
  struct Start {
    std::string path;  // "/rdmabroker.v1.Broker/Session".
    std::string authority = "localhost";
    std::optional<absl::Duration> timeout;  // One that has passed ends the call at the next PassTime.
    Headers metadata;                       // Lower-case names.
  };

  explicit ClientConnection(const Limits& limits);

  // As Http2's. Each of the first two may lead to events: take those after it.
  size_t Receive(std::string_view octets, absl::Time now);
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const { return http2_.HasOutput(); }
  [[nodiscard]] bool IsDone() const { return http2_.IsDone(); }
  // The server has closed the connection: calls under way end as UNAVAILABLE.
  void Disconnected();
  // Whether calls can begin. If not, another connection is needed; the calls of this one go on.
  [[nodiscard]] bool TakesCalls() const { return !http2_.IsTerminated() && !http2_.PeerDrains(); }

  std::optional<ClientEvent> NextEvent();

  // Begins a call. 0: this connection takes none any more.
  CallId Begin(const Start& start, absl::Time now);
  // These are for calls that have begun; one that has finished is ignored.
  void Send(CallId call, std::string_view request);
  // There are no more requests.
  void EndRequests(CallId call);
  // Asks for one reply. Before it is there, another Read changes nothing.
  void Read(CallId call);
  // Ends the call, and drops replies that were not read. CallFinished follows, as CANCELLED unless the call had ended.
  void Cancel(CallId call);

  // Ends calls whose deadline has passed.
  void PassTime(absl::Time now);
  // When PassTime has something to do.
  [[nodiscard]] std::optional<absl::Time> NextDeadline() const;

 private:
  struct Call {
    std::optional<absl::Time> deadline;
    std::optional<Status> status;  // Told when all replies have been.
    bool answered = false;         // The answer's headers have come, and they are gRPC's.
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
  // The call ends so, if it has not: replies that wait are dropped.
  void Fail(CallId id, Status status);
  // As Fail, and the server is told.
  void Break(CallId id, Status status);
  void BreakFault(CallId id);
  void Note(CallId id, Call& call);

  const Limits limits_;
  Http2 http2_;
  Inbound inbound_;
  std::map<CallId, Call> calls_;
  std::deque<CallId> ready_;  // Calls that may have something to tell.
  std::set<std::pair<absl::Time, CallId>> deadlines_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_CLIENT_CONNECTION_H_
