// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_CONNECTION_H_
#define BROKER_FABRIC_IWARP_CONNECTION_H_

#include <sys/epoll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/handshake_turns.h"
#include "broker/fabric/iwarp/kept_transport.h"
#include "broker/fabric/iwarp/options.h"
#include "broker/fabric/iwarp/socket_status.h"
#include "broker/fabric/local_addresses.h"
#include "broker/fabric/report_queue.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// What every part of the fabric works with. All of it outlives the parts.
struct IwarpSurroundings {
  const IwarpOptions& options;
  const LocalAddresses& addresses;
  Loop& loop;
  HandoffTable& handoffs;
  DescriptorKeep& keep;
  FabricRecords& records;
  ReportQueue& reports;
  HandshakeTurns& turns;
  WarningLimit& losses;  // Of what ended with the process before.
};

// One end of a connection, from its socket to its release. What is common to both sides; see ActiveConnection and
// PassiveConnection. Once it has reported FabricReleased it is to be destroyed, outside of its functions.
class Connection {
 public:
  // Before its release, it goes with its process: what outlives that is left as it is.
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Requests that crossed the report of a failure do nothing.
  virtual void Perform(const FabricComplete&) {}
  virtual void Perform(const FabricAccept&) {}
  virtual void Perform(const FabricReject&) { Release(); }
  // The peer finds its stream reset, unless the client has ended it; for one that waits for a reply, that is as if
  // nobody listened. After the hand-over the socket is its client's, and nothing happens to it.
  void Release(bool client_ended = false);
  // As Fabric::MakeWay.
  virtual void MakeWay() {}
  // Something has left for the peer, or come from it, and it is neither established nor over.
  bool in_handshake() const;

 protected:
  // Something to read, or the end of it. A wait for this and then for this again takes no further call.
  static constexpr uint32_t kInput = EPOLLIN | EPOLLRDHUP;

  Connection(const IwarpSurroundings& surroundings, ConnectionId id, const SocketAddress& peer);

  virtual void OnReady(uint32_t events) = 0;
  virtual void OnDeadline() {}

  // Calls OnReady once when one of `events`, an error or a hang-up occurs on the socket.
  void Await(uint32_t events);
  // For events while the consumer decides: the peer's data stays in the socket, and anything else ends the connection.
  void AwaitDecision(uint32_t events);
  // Calls OnDeadline once, in place of any that is set.
  void SetDeadline(absl::Duration after);
  // A reset tells the peer at once; without it, what was sent still reaches the peer, and then the stream's end. What
  // outlives the process of the socket is no longer needed, and neither is its turn.
  void CloseSocket(bool reset = true);
  // It is another's turn, if it was this one's.
  void EndTurn();

  // What this side wants of the negotiation on this socket.
  iwarp::Offer OfferFor(const ReadLimits& limits) const;
  // Puts the socket and the state where the client finds them, keeps both until it has, and reports FabricEstablished.
  void Establish(iwarp::ConnectionState state);
  // Puts what was kept of another process's connection where the client finds it, by the secret that it knows.
  void OfferAgain(KeptTransport transport);
  // The client has the transport, or nobody is to have it.
  void Forget();
  // Closes the socket and reports why.
  void End(FabricReport report);
  // With FabricFailed, and its explanation.
  void Fail(int error, std::string explanation = {});

  // kOver: nothing but its release is to come.
  enum class State : uint8_t {
    kWaiting,
    kConnecting,
    kRequesting,
    kReplied,
    kRequested,
    kAccepting,
    kRejecting,
    kEstablished,
    kOver
  };

  const IwarpSurroundings& surroundings_;
  const ConnectionId id_;
  const SocketAddress peer_;
  State state_ = State::kWaiting;
  UniqueFd socket_;
  std::string input_;  // Received and not dealt with. Bounded by how much each side reads.
  bool kept_ = false;  // The transport, or a record, may outlive the process.

 private:
  Handoff MakeHandoff(std::string state);
  void OnTaken(bool taken);
  // Stops waiting for anything of the socket.
  void StopWaiting();

  WatchId watch_ = WatchId::kNone;
  TimerId deadline_ = TimerId::kNone;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_CONNECTION_H_
