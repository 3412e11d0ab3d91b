// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_HANDOFF_H_
#define CLIENT_HANDOFF_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "client/back_off.h"
#include "client/values.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/handoff.pb.h"

namespace rdmabroker::client {

// One hand-off of a connection's transport (handoff.proto).
class Handoff {
 public:
  // How long it waits, both positive. Time in which this process is stopped does not count.
  struct Patience {
    std::chrono::nanoseconds answer;  // For one answer: a broker that is silent for longer has gone for now.
    std::chrono::nanoseconds broker;  // For all of it: the broker ends the connection by then.
    std::function<bool()> lost;       // Asked while it waits: whether nobody wants the transport any more.
  };

  Handoff(std::string socket_path, v1::HandoffRequest request, Patience patience)
      : socket_path_(std::move(socket_path)),
        request_(std::move(request)),
        patience_(std::move(patience)),
        left_(patience_.broker) {}

  // Once: connects to the hand-off socket and fetches the transport, and begins again where the broker has gone or says
  // nothing. STATUS_IO_TIMEOUT where it has stayed silent, STATUS_CONNECTION_ABORTED where none was there at last, and
  // STATUS_CANCELLED where the patience was lost.
  Outcome Fetch();

  // After a successful Fetch, once each.
  UniqueFd TakeTransport() { return std::move(transport_); }
  std::string TakeState() { return std::move(state_); }

  // Tells the broker that the transport is in service. Without it the broker ends the connection. A broker that is gone
  // by now does not matter: the next one knows that the transport was sent.
  void Acknowledge();

 private:
  // Whether the broker's process went away in the middle, or does not get round to it.
  enum class Broker { kThere, kGone };

  Broker TryFetch(Outcome* outcome);
  Broker Receive(Outcome* outcome);
  // Until the socket has something to read, if that is to be waited for; false where it has not in that time, or the
  // patience is over.
  bool Wait(bool for_answer, std::chrono::nanoseconds longest);
  bool IsOver() const { return left_ <= std::chrono::nanoseconds::zero() || patience_.lost(); }
  Outcome GivenUp(const Outcome& cause) const;

  const std::string socket_path_;
  const v1::HandoffRequest request_;
  const Patience patience_;
  std::chrono::nanoseconds left_;  // Of patience_.broker.
  RandomBackOff back_off_;
  UniqueFd socket_;
  UniqueFd transport_;
  std::string state_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_HANDOFF_H_
