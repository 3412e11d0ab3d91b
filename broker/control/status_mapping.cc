// SPDX-License-Identifier: Apache-2.0

#include "broker/control/status_mapping.h"

#include <string>

#include "broker/control/translation.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker {
namespace {

struct Row {
  NdkStatus status;
  grpc::StatusCode code;
};

constexpr Row kRows[] = {
    {NdkStatus::kUnsuccessful, grpc::StatusCode::UNKNOWN},
    {NdkStatus::kInvalidParameter, grpc::StatusCode::INVALID_ARGUMENT},
    {NdkStatus::kInvalidDeviceRequest, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kNoMemory, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {NdkStatus::kAccessDenied, grpc::StatusCode::PERMISSION_DENIED},
    {NdkStatus::kInvalidParameterMix, grpc::StatusCode::INVALID_ARGUMENT},
    {NdkStatus::kObjectNameNotFound, grpc::StatusCode::NOT_FOUND},
    {NdkStatus::kSharingViolation, grpc::StatusCode::ALREADY_EXISTS},
    {NdkStatus::kInsufficientResources, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {NdkStatus::kIoTimeout, grpc::StatusCode::DEADLINE_EXCEEDED},
    {NdkStatus::kNotSupported, grpc::StatusCode::UNIMPLEMENTED},
    {NdkStatus::kInternalError, grpc::StatusCode::INTERNAL},
    {NdkStatus::kCancelled, grpc::StatusCode::CANCELLED},
    {NdkStatus::kInvalidAddress, grpc::StatusCode::INVALID_ARGUMENT},
    {NdkStatus::kInvalidDeviceState, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kInvalidBufferSize, grpc::StatusCode::INVALID_ARGUMENT},
    {NdkStatus::kTooManyAddresses, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {NdkStatus::kAddressAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    {NdkStatus::kConnectionDisconnected, grpc::StatusCode::UNAVAILABLE},
    {NdkStatus::kConnectionRefused, grpc::StatusCode::UNAVAILABLE},
    {NdkStatus::kAddressAlreadyAssociated, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kAddressNotAssociated, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kConnectionInvalid, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kConnectionActive, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kNetworkUnreachable, grpc::StatusCode::UNAVAILABLE},
    {NdkStatus::kHostUnreachable, grpc::StatusCode::UNAVAILABLE},
    {NdkStatus::kRequestAborted, grpc::StatusCode::ABORTED},
    {NdkStatus::kConnectionAborted, grpc::StatusCode::ABORTED},
    {NdkStatus::kDeviceRemoved, grpc::StatusCode::UNAVAILABLE},
    {NdkStatus::kImplementationLimit, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {NdkStatus::kBadVersion, grpc::StatusCode::FAILED_PRECONDITION},
    {NdkStatus::kAdapterNotReady, grpc::StatusCode::UNAVAILABLE},
};

}  // namespace

grpc::StatusCode GrpcCodeOf(NdkStatus status) {
  if (IsSuccess(status)) return grpc::StatusCode::OK;
  for (const Row& row : kRows) {
    if (row.status == status) return row.code;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status GrpcStatusOf(const Outcome& outcome) {
  if (IsSuccess(outcome.status)) return grpc::Status::OK;
  return GrpcStatusOf(outcome, GrpcCodeOf(outcome.status));
}

grpc::Status GrpcStatusOf(const Outcome& outcome, grpc::StatusCode code) {
  v1::Outcome detail;
  ToProto(outcome, &detail);
  v1::RpcStatus status;
  status.set_code(code);
  status.set_message(std::string(StatusName(outcome.status)) + ": " + detail.hint());
  status.add_details()->PackFrom(detail);
  return grpc::Status(code, status.message(), status.SerializeAsString());
}

}  // namespace rdmabroker
