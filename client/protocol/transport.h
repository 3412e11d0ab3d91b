// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_PROTOCOL_TRANSPORT_H_
#define CLIENT_PROTOCOL_TRANSPORT_H_

#include <optional>
#include <string>

#include "client/values.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

// The feature of a broker that takes requests on a session's stream (session.proto, OpenSession.features).
inline constexpr char kRequestsOnStream[] = "requests-on-stream";

// How a stream has ended.
struct StreamEnd {
  std::optional<v1::Outcome> outcome;  // What the broker says of it.
  // Without an outcome: the broker's process has gone, or nobody serves. False: it ended as no stream of a broker does.
  bool gone = false;
  std::string text;  // Without an outcome: the same for a person.
};

// Carries the messages of one session's streams (Broker.Session of the contract), one stream at a time. It tells the
// SessionProtocol that it is made for by Sent, Received and StreamEnded, never from within one of these functions.
class Transport {
 public:
  virtual ~Transport() = default;

  // Begins a stream with this message. Sent follows, or StreamEnded.
  virtual void Start(const v1::SessionRequest& first) = 0;
  // Sends one more. True: another may be sent at once. False: not before Sent.
  virtual bool Send(const v1::SessionRequest& message) = 0;
  // Ends the stream. Nothing is told of it any more.
  virtual void Abandon() = 0;
  // Whether a broker serves, or a supervisor keeps its place for the next. Does not wait.
  virtual bool SomebodyListens() = 0;
  // Why nobody does, and what to do.
  virtual Outcome NoBroker() = 0;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_PROTOCOL_TRANSPORT_H_
