// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_HANDOFF_H_
#define CLIENT_HANDOFF_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "client/back_off.h"
#include "client/values.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/handoff.pb.h"

namespace rdmabroker::client {

// One hand-off of a connection's transport (handoff.proto). It holds nobody up: whoever has it lets it go on from time
// to time.
class Handoff {
 public:
  // How long it waits, both positive. Time in which this process is stopped does not count.
  struct Patience {
    std::chrono::nanoseconds answer;  // For one answer: a broker that is silent for longer has gone for now.
    std::chrono::nanoseconds broker;  // For all of it: the broker ends the connection by then.
  };

  Handoff(std::string socket_path, v1::HandoffRequest request, Patience patience);

  // Connects to the hand-off socket and fetches the transport, and begins again where the broker has gone or says
  // nothing. Takes two milliseconds at most, in which most brokers answer. Nothing: call it again after pause().
  // STATUS_IO_TIMEOUT where the broker has stayed silent, and STATUS_CONNECTION_ABORTED where none was there at last.
  std::optional<Outcome> GoOn();
  std::chrono::milliseconds pause() const;

  // After a success, once each.
  UniqueFd TakeTransport() { return std::move(transport_); }
  std::string TakeState() { return std::move(state_); }

  // Tells the broker that the transport is in service. Without it the broker ends the connection. A broker that is gone
  // by now does not matter: the next one knows that the transport was sent.
  void Acknowledge();

 private:
  enum class Phase {
    kToAsk,
    kAsked,
    kPausing,  // Nobody was there, or answered.
  };
  // Counts the time since the last call, as far as it was to pass.
  void Count();
  // Whether the hand-off ends with outcome_. It does not where the broker's process went away in the middle, or does
  // not get round to it.
  bool Ask();
  bool Receive(bool answered);
  void BeginPause();
  bool HasAnswer(std::chrono::nanoseconds longest);
  Outcome GivenUp() const;

  const std::string socket_path_;
  const v1::HandoffRequest request_;
  const Patience patience_;
  Phase phase_ = Phase::kToAsk;
  std::chrono::nanoseconds left_;          // Of patience_.broker.
  std::chrono::nanoseconds phase_left_{};  // Of the wait for an answer, or of the pause.
  std::chrono::nanoseconds pause_{};
  std::chrono::steady_clock::time_point last_;
  int tries_ = 0;
  RandomBackOff back_off_;
  Outcome outcome_;  // Of the last try.
  UniqueFd socket_;
  UniqueFd transport_;
  std::string state_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_HANDOFF_H_
