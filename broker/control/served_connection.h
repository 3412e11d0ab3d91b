// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SERVED_CONNECTION_H_
#define BROKER_CONTROL_SERVED_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "broker/control/caller.h"
#include "broker/control/services.h"
#include "broker/control/tls.h"
#include "broker/control/user_costs.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {

class ServerStream;

// Serves gRPC on one client's connection. It carries octets between the socket, TLS and rpc::ServerConnection, and
// passes each call to its service, when it is its user's turn. At a time it reads at most 16 KiB, and of TLS at most
// TlsConnection::kRecordsAtATime. It writes at the end of the loop's turn, and does not read while output waits for the
// client. Loop thread only.
class ServedConnection : public std::enable_shared_from_this<ServedConnection> {
 public:
  // How long output may wait without the client reading any of it. After that the connection ends. A stream's patience
  // is shorter and ends the stream alone.
  static constexpr absl::Duration kUnreadPatience = absl::Minutes(1);
  // How long the connection serves earlier messages after the client has closed it.
  static constexpr absl::Duration kLastWords = absl::Milliseconds(200);

  // The owner of the listening socket from which the connection came.
  class Port {
   public:
    virtual ~Port() = default;
    // Identifies the caller of a new call. `action` is the call's name in the contract, for the log. If the status is
    // not OK, the call ends with it.
    virtual rpc::Status Admit(ServedConnection& connection, absl::string_view action,
                              std::shared_ptr<const Caller>* caller) = 0;
    // The connection ends, because its client floods the broker or leaves too much with it. `cause` says which.
    virtual void Exceeds(ServedConnection& connection, absl::string_view cause) = 0;
    // The connection and its calls have ended. It does not call the port again.
    virtual void Ended(ServedConnection& connection) = 0;
  };

  // `tls` is null for a connection without TLS; otherwise its handshake must be complete. Everything passed by
  // reference must outlive the connection.
  ServedConnection(UniqueFd socket, std::unique_ptr<TlsConnection> tls, Port& port, const Services& services,
                   const rpc::ServerConnection::Limits& limits, UserCosts& costs, const Payer& payer, Loop& loop);
  ~ServedConnection();
  ServedConnection(const ServedConnection&) = delete;
  ServedConnection& operator=(const ServedConnection&) = delete;

  // Begins to serve the connection when it is its user's turn. Call it once.
  void Start();
  // Accepts no new calls. The connection ends when its open calls have ended.
  void Drain();
  // Ends the connection at once, and its calls in turns of its user. Must not be called from within a call's service.
  void End();
  // Moves the connection to the account of `payer`.
  void ChargeTo(const Payer& payer);

  Port& port() { return port_; }
  int socket() const { return socket_.get(); }

  // For services. Open gives the call's events to `stream`; the others are rpc::ServerConnection's.
  void Open(rpc::CallId call, std::shared_ptr<ServerStream> stream);
  void Read(rpc::CallId call);
  void Send(rpc::CallId call, absl::string_view reply);
  void Finish(rpc::CallId call, const rpc::Status& status);
  void Abandon(rpc::CallId call);

  // Runs `task` when it is the turn of the connection's user, behind the user's earlier work, if the connection still
  // exists then.
  void InTurn(std::function<void()> task);
  // Same as the functions of UserTurns, for the connection's user.
  [[nodiscard]] bool MayGoOn() const { return account_->MayGoOn(); }
  void Charge(int64_t requests) const { account_->Charge(requests); }
  void Owe(int64_t requests) const { account_->Owe(requests); }

 private:
  // Has ServeClient called when it is the user's turn.
  void ServeSoon();
  // Serves events and octets that wait. If there are none, reads once from the socket first.
  void ServeClient();
  // Reads octets that TLS has left, or else once from the socket. Returns false if the client has ended the connection.
  bool ReadClient();
  bool ReadTls(std::string_view octets);
  void ServeInput();
  // Serves events while the user may go on. Returns false if there may be more.
  bool ServeEvents();
  void Serve(rpc::ServerEvent event);
  // Schedules Flush for the end of this turn, or for the next turn if Flush is running.
  void Touch();
  void Flush();
  // Whether the connection is over and has no more output.
  bool IsDone() const;
  void TakeOutput();
  // Writes once. Output for a client that has gone is dropped.
  void WriteOutput();
  // The client has ended the connection. The services get its earlier messages before the connection ends here.
  void HearLastWords();
  void EndOnceHeard();
  // Tells the streams that their calls are lost.
  void EndCalls();
  void Rearm();
  void SetTimer();
  void Forget(rpc::CallId call, std::optional<rpc::CallLost::Why> why);
  // Ends the connection, because its client floods the broker or leaves too much with it. `cause` says which.
  void EndForExcess(absl::string_view cause);
  // Octets of the client that wait in TLS.
  size_t InTls() const { return tls_ == nullptr ? 0 : tls_->unread(); }
  // Notes how much the client has not read, once much was sent: the kernel's memory for it is the broker's.
  void LookAtSocket();
  // Octets in memory that wait for the broker or for the client.
  size_t Held() const;

  UniqueFd socket_;
  const std::unique_ptr<TlsConnection> tls_;
  Port& port_;
  const Services& services_;
  Loop& loop_;
  const std::unique_ptr<UserCosts::Entry> account_;
  rpc::ServerConnection rpc_;
  std::unordered_map<rpc::CallId, std::shared_ptr<ServerStream>> streams_;
  // Streams whose calls have ended. They are destroyed later, because their functions may still be running.
  std::vector<std::shared_ptr<ServerStream>> over_;
  WatchId watch_ = WatchId::kNone;
  TimerId timer_ = TimerId::kNone;
  absl::Time timer_end_ = absl::InfiniteFuture();
  std::string input_;                    // Plain octets that rpc_ has not read. At most 16 KiB and one record of TLS.
  TimerId unread_ = TimerId::kNone;      // Runs while output waits; restarts when some of it is written.
  TimerId last_words_ = TimerId::kNone;  // Runs after the client has ended the connection.
  std::string output_;                   // Octets for the socket. At most those of one rpc_.TakeOutput.
  size_t sent_ = 0;                      // Octets written since LookAtSocket looked last.
  size_t in_socket_ = 0;                 // Octets of memory for what the client had not read by then.
  absl::Time look_at_ = absl::InfiniteFuture();
  bool waits_ = false;   // ServeClient waits for the user's turn.
  bool served_ = false;  // An event was served since the last Receive.
  bool told_ = false;    // The port knows that the client has flooded the broker.
  bool touched_ = false;
  bool flushing_ = false;
  bool unwritable_ = false;  // A write has failed. Earlier messages of the client may still be unread.
  bool ended_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SERVED_CONNECTION_H_
