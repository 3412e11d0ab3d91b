// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_HANDOFF_TABLE_H_
#define BROKER_RUNTIME_HANDOFF_TABLE_H_

#include <functional>
#include <map>
#include <string>

#include "broker/core/fabric_messages.h"
#include "broker/core/ids.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The transport of an established connection that its client has still to fetch.
struct Handoff {
  HandoffSecret secret = {};
  UniqueFd socket;
  std::string state;  // For the client's data path, which alone understands it.
  bool sent = false;  // On its way; nobody else gets it.
  // Before it is sent: the client may have it from then on. False: it could not be sent.
  std::function<void(bool)> on_sending;
  std::function<void()> on_taken;  // The client has it: the broker's copy is closed.
  std::function<void()> on_lost;   // The client failed between the sending and its acknowledgement.
};

// Where fabrics put transports and the hand-off socket finds them. Bounded by the connections, each of which is in it
// at most once, until the core's hand-off deadline. Loop thread only.
class HandoffTable {
 public:
  // Makes up the secret, from the kernel's randomness. The process ends where there is none.
  HandoffSecret Offer(ConnectionId connection, Handoff handoff);
  // Under the secret that it has, by which its client may know it already.
  void OfferAgain(ConnectionId connection, Handoff handoff);
  // The connection is given up: closes the transport and calls nothing. Unknown ones are ignored.
  void Withdraw(ConnectionId connection);

  // Null for none.
  Handoff* Find(ConnectionId connection);
  // Ends it, closes the broker's copy and calls on_taken or on_lost.
  void Settle(ConnectionId connection, bool taken);

 private:
  std::map<ConnectionId, Handoff> handoffs_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_HANDOFF_TABLE_H_
