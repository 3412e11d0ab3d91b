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

// One hand-off of a connection's transport (handoff.proto). Each step waits for the broker, at most the timeout.
class Handoff {
 public:
  // Connects to the hand-off socket and fetches the transport.
  Outcome Fetch(const std::string& socket_path, const v1::HandoffRequest& request, std::chrono::milliseconds timeout);

  // After a successful Fetch, once each.
  UniqueFd TakeTransport() { return std::move(transport_); }
  std::string TakeState() { return std::move(state_); }

  // Tells the broker that the transport is in service. Without it the broker ends the connection. A broker that is gone
  // by now does not matter: the transport is here.
  void Acknowledge();

 private:
  Outcome Receive();

  uint64_t connector_ = 0;
  UniqueFd socket_;
  UniqueFd transport_;
  std::string state_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_HANDOFF_H_
