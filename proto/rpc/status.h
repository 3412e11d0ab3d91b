// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_STATUS_H_
#define PROTO_RPC_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/inbound.h"

namespace rdmabroker::rpc {

// How a call has ended.
struct Status {
  absl::StatusCode code = absl::StatusCode::kOk;  // gRPC's codes, by their numbers.
  std::string message;                            // UTF-8, for a person.
  std::string details;                            // A serialized google.rpc.Status, or nothing.

  [[nodiscard]] bool ok() const { return code == absl::StatusCode::kOk; }
};

// Returns the trailers of a call with this status. They fit into 8 KiB: a long message is cut, long details are left
// out.
Headers TrailersOf(const Status& status);
// Reads the status in trailers or in a response that has only headers. UNKNOWN if it has no valid grpc-status.
Status StatusOf(const Headers& trailers);
// Returns gRPC's status for a response whose `:status` is not 200.
Status StatusOfHttp(int code);
// Returns the status for a malformed or too long message. `message` is "request" or "reply", `longest` the limit in
// octets.
Status StatusOfFault(MessageFault fault, const char* message, size_t longest);
// Returns gRPC's status for a stream that was reset with this error code (RFC 9113 section 7).
Status StatusOfReset(uint32_t error);

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_STATUS_H_
