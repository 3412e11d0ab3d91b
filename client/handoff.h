// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_HANDOFF_H_
#define CLIENT_HANDOFF_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "client/values.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/handoff.pb.h"

namespace rdmabroker::client {

// One hand-off of a connection's transport (handoff.proto).
class Handoff {
 public:
  Handoff(std::string socket_path, v1::HandoffRequest request, std::chrono::milliseconds timeout)
      : socket_path_(std::move(socket_path)), request_(std::move(request)), timeout_(timeout) {}

  // Connects to the hand-off socket and fetches the transport. Waits for the broker's answer as long as the timeout,
  // and for another broker, where that has gone, likewise. Time in which this process is stopped does not count.
  Outcome Fetch();

  // After a successful Fetch, once each.
  UniqueFd TakeTransport() { return std::move(transport_); }
  std::string TakeState() { return std::move(state_); }

  // Tells the broker that the transport is in service. Without it the broker ends the connection. A broker that is gone
  // by now does not matter: the next one knows that the transport was sent.
  void Acknowledge();

 private:
  // Whether the broker's process went away in the middle.
  enum class Broker { kThere, kGone };

  Broker TryFetch(Outcome* outcome);
  Broker Receive(Outcome* outcome);

  const std::string socket_path_;
  const v1::HandoffRequest request_;
  const std::chrono::milliseconds timeout_;
  UniqueFd socket_;
  UniqueFd transport_;
  std::string state_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_HANDOFF_H_
