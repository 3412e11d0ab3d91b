// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_STATUS_H_
#define PROTO_RPC_STATUS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/rpc/headers.h"

namespace rdmabroker::rpc {

// How a call has ended.
struct Status {
  absl::StatusCode code = absl::StatusCode::kOk;  // gRPC's codes, by their numbers.
  std::string message;                            // UTF-8, for a person.
  std::string details;                            // A serialized google.rpc.Status, or nothing.

  [[nodiscard]] bool ok() const { return code == absl::StatusCode::kOk; }
};

// As trailers of a call, which are shorter than 8 KiB: of a longer message only the beginning, no longer details.
Headers TrailersOf(const Status& status);
// From trailers, or from headers that are all of an answer. Without a code that gRPC knows it is UNKNOWN.
Status StatusOf(const Headers& trailers);
// Of an answer whose `:status` is not 200.
Status StatusOfHttp(int code);
// Of a call whose stream was reset with this error of RFC 9113 section 7.
Status StatusOfReset(uint32_t error);

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_STATUS_H_
