// SPDX-License-Identifier: Apache-2.0

#include "broker/control/status_mapping.h"

#include <string>

#include "broker/control/translation.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker {
namespace {

struct Row {
  NdkStatus status;
  absl::StatusCode code;
};

constexpr Row kRows[] = {
    {NdkStatus::kUnsuccessful, absl::StatusCode::kUnknown},
    {NdkStatus::kInvalidParameter, absl::StatusCode::kInvalidArgument},
    {NdkStatus::kInvalidDeviceRequest, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kNoMemory, absl::StatusCode::kResourceExhausted},
    {NdkStatus::kAccessDenied, absl::StatusCode::kPermissionDenied},
    {NdkStatus::kInvalidParameterMix, absl::StatusCode::kInvalidArgument},
    {NdkStatus::kObjectNameNotFound, absl::StatusCode::kNotFound},
    {NdkStatus::kSharingViolation, absl::StatusCode::kAlreadyExists},
    {NdkStatus::kInsufficientResources, absl::StatusCode::kResourceExhausted},
    {NdkStatus::kIoTimeout, absl::StatusCode::kDeadlineExceeded},
    {NdkStatus::kNotSupported, absl::StatusCode::kUnimplemented},
    {NdkStatus::kInternalError, absl::StatusCode::kInternal},
    {NdkStatus::kCancelled, absl::StatusCode::kCancelled},
    {NdkStatus::kInvalidAddress, absl::StatusCode::kInvalidArgument},
    {NdkStatus::kInvalidDeviceState, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kInvalidBufferSize, absl::StatusCode::kInvalidArgument},
    {NdkStatus::kTooManyAddresses, absl::StatusCode::kResourceExhausted},
    {NdkStatus::kAddressAlreadyExists, absl::StatusCode::kAlreadyExists},
    {NdkStatus::kConnectionDisconnected, absl::StatusCode::kUnavailable},
    {NdkStatus::kConnectionRefused, absl::StatusCode::kUnavailable},
    {NdkStatus::kAddressAlreadyAssociated, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kAddressNotAssociated, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kConnectionInvalid, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kConnectionActive, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kNetworkUnreachable, absl::StatusCode::kUnavailable},
    {NdkStatus::kHostUnreachable, absl::StatusCode::kUnavailable},
    {NdkStatus::kRequestAborted, absl::StatusCode::kAborted},
    {NdkStatus::kConnectionAborted, absl::StatusCode::kAborted},
    {NdkStatus::kDeviceRemoved, absl::StatusCode::kUnavailable},
    {NdkStatus::kImplementationLimit, absl::StatusCode::kResourceExhausted},
    {NdkStatus::kBadVersion, absl::StatusCode::kFailedPrecondition},
    {NdkStatus::kAdapterNotReady, absl::StatusCode::kUnavailable},
};

}  // namespace

absl::StatusCode RpcCodeOf(NdkStatus status) {
  if (IsSuccess(status)) return absl::StatusCode::kOk;
  for (const Row& row : kRows) {
    if (row.status == status) return row.code;
  }
  return absl::StatusCode::kInternal;
}

rpc::Status RpcStatusOf(const Outcome& outcome) {
  if (IsSuccess(outcome.status)) return {};
  return RpcStatusOf(outcome, RpcCodeOf(outcome.status));
}

rpc::Status RpcStatusOf(const Outcome& outcome, absl::StatusCode code) {
  v1::Outcome detail;
  ToProto(outcome, &detail);
  v1::RpcStatus status;
  status.set_code(static_cast<int>(code));
  status.set_message(std::string(StatusName(outcome.status)) + ": " + detail.hint());
  status.add_details()->PackFrom(detail);
  return {.code = code, .message = status.message(), .details = status.SerializeAsString()};
}

}  // namespace rdmabroker
