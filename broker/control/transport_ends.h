// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TRANSPORT_ENDS_H_
#define BROKER_CONTROL_TRANSPORT_ENDS_H_

#include "broker/control/session_features.h"
#include "broker/core/messages.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {

// Returns whether the loss of its stream ends a session (broker.proto, Session). A half-close, a CloseSession message
// and the end of the client's process always end it. Any other loss leaves the session its grace period, except for two
// kinds of clients:
//
//   the stream was lost by       | with "requests-on-stream" | without | process not visible (pid 0)
//   RST_STREAM with CANCEL       | away                      | ended   | as in the columns before
//   RST_STREAM with another code | away                      | away    | away
//   the call's deadline          | away                      | away    | away
//   the connection's end         | away                      | away    | ended
//
// A client without the feature cancels the call to end its session, as version 1 of the contract has it. Where the
// broker cannot see the process, the connection's end is all that it sees of the process's end.
inline StreamEnd EndOf(rpc::CallLost::Why why, const Features& features, const Identity& client) {
  const bool ended = (why == rpc::CallLost::Why::kCancelled && !features.requests_on_stream) ||
                     (why == rpc::CallLost::Why::kConnection && client.pid == 0);
  return ended ? StreamEnd::kClient : StreamEnd::kBroker;
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TRANSPORT_ENDS_H_
