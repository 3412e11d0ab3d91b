// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SERVED_CONNECTION_H_
#define BROKER_CONTROL_SERVED_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "broker/control/caller.h"
#include "broker/control/services.h"
#include "broker/control/tls.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {

class ServerStream;

// One client's connection, on which the broker serves gRPC: carries octets between a socket, TLS if there is any, and
// rpc::ServerConnection, and gives each call to its service. It reads at most 16 KiB in a turn of the loop, writes at
// its end, and reads nothing while output waits for the client. Loop thread only.
class ServedConnection : public std::enable_shared_from_this<ServedConnection> {
 public:
  // For a client to read at least a part of what waits for it. A stream's patience is shorter, and ends the stream
  // alone.
  static constexpr absl::Duration kUnreadPatience = absl::Minutes(1);
  // Once the client has ended the connection: for what it said before, of which a stream takes one message a turn.
  static constexpr absl::Duration kLastWords = absl::Milliseconds(200);

  // The listening socket that the connection has come over.
  class Port {
   public:
    virtual ~Port() = default;
    // Finds out who makes a call that begins. `action` is its name in the contract, for the log. Not OK: the call ends
    // with this status.
    virtual rpc::Status Admit(ServedConnection& connection, absl::string_view action,
                              std::shared_ptr<const Caller>* caller) = 0;
    // The connection has ended, and calls the port no more.
    virtual void Ended(ServedConnection& connection) = 0;
  };

  // `tls` is null for a connection without TLS, and otherwise has ended its handshake. What is referred to must outlive
  // the connection, but the budget, which all connections of a user share.
  ServedConnection(UniqueFd socket, std::unique_ptr<TlsConnection> tls, Port& port, const Services& services,
                   const rpc::ServerConnection::Limits& limits, std::shared_ptr<rpc::FrameBudget> budget, Loop& loop);
  ~ServedConnection();
  ServedConnection(const ServedConnection&) = delete;
  ServedConnection& operator=(const ServedConnection&) = delete;

  // Once: serves what comes.
  void Start();
  // Takes no new calls, and ends once those that are open have ended.
  void Drain();
  // Ends at once, and with it its calls. Not from within a call's service.
  void End();

  Port& port() { return port_; }
  int socket() const { return socket_.get(); }
  // Null if there is none.
  const TlsConnection* tls() const { return tls_.get(); }

  // For services. As rpc::ServerConnection's functions of these names.
  void Open(rpc::CallId call, std::shared_ptr<ServerStream> stream);
  void Read(rpc::CallId call);
  void Send(rpc::CallId call, absl::string_view reply);
  void Finish(rpc::CallId call, const rpc::Status& status);
  void Abandon(rpc::CallId call);

 private:
  void Ready();
  // Reads once from the socket, unless octets that were read before wait, and serves what has arrived.
  void ReadSome();
  // False: the client has ended the connection.
  bool ReadSocket();
  void ServeInput();
  void ServeEvents();
  void Serve(const rpc::ServerEvent& event);
  // Has Flush called at the end of this turn; in the next turn if it runs just now.
  void Touch();
  void Flush();
  // All that there was to say has been said.
  bool IsDone() const;
  void TakeOutput();
  // Writes once. Output for a client that has gone is dropped.
  void WriteOutput();
  // The client has ended the connection. Ends it, too, once the services have what the client said before.
  void HearLastWords();
  void EndOnceHeard();
  void Rearm();
  void SetTimer();
  void Forget(rpc::CallId call, std::optional<rpc::CallLost::Why> why);

  UniqueFd socket_;
  const std::unique_ptr<TlsConnection> tls_;
  Port& port_;
  const Services& services_;
  Loop& loop_;
  const std::shared_ptr<rpc::FrameBudget> budget_;
  rpc::ServerConnection rpc_;
  std::unordered_map<rpc::CallId, std::shared_ptr<ServerStream>> streams_;
  // Streams whose calls have ended. Some of their functions may still be running.
  std::vector<std::shared_ptr<ServerStream>> over_;
  WatchId watch_ = WatchId::kNone;
  TimerId timer_ = TimerId::kNone;
  absl::Time timer_end_ = absl::InfiniteFuture();
  std::string input_;                    // Plain octets that rpc_ has not read. At most 16 KiB and one record of TLS.
  TimerId unread_ = TimerId::kNone;      // While output waits; since some of it was read.
  TimerId last_words_ = TimerId::kNone;  // Since the client has ended the connection.
  std::string output_;                   // Octets for the socket. At most those of one rpc_.TakeOutput.
  bool later_ = false;                   // ReadSome is posted.
  bool touched_ = false;
  bool flushing_ = false;
  bool unwritable_ = false;  // A write has failed. The client may have said something before it left.
  bool ended_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SERVED_CONNECTION_H_
