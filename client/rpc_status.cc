// SPDX-License-Identifier: Apache-2.0

#include "client/rpc_status.h"

#include "client/translation.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker::client {

std::optional<v1::Outcome> FailureDetail(const grpc::Status& status) {
  v1::RpcStatus details;
  v1::Outcome outcome;
  if (status.ok() || !details.ParseFromString(status.error_details()) || details.details_size() != 1 ||
      !details.details(0).UnpackTo(&outcome) || IsSuccess(FromMessage(outcome.status()))) {
    return std::nullopt;
  }
  return outcome;
}

// A server that stops cancels its calls; a connection that ends in the middle, or is not made, makes them unavailable.
bool HasGone(const grpc::Status& status) {
  const bool may_be =
      status.error_code() == grpc::StatusCode::UNAVAILABLE || status.error_code() == grpc::StatusCode::CANCELLED;
  return may_be && !FailureDetail(status).has_value();
}

}  // namespace rdmabroker::client
