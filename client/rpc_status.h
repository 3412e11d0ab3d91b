// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_RPC_STATUS_H_
#define CLIENT_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "proto/rdmabroker/v1/outcome.pb.h"

namespace rdmabroker::client {

// The outcome that a failed RPC carries as its detail; nothing if there is none, or if it is not an error.
std::optional<v1::Outcome> FailureDetail(const grpc::Status& status);

// Whether the RPC failed because the broker's process was ending, has ended, or ended while the connection was being
// made: then it says nothing about the request.
bool HasGone(const grpc::Status& status);

}  // namespace rdmabroker::client

#endif  // CLIENT_RPC_STATUS_H_
