// SPDX-License-Identifier: Apache-2.0

#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

struct Row {
  NdkStatus status;
  std::string_view name;
};

constexpr Row kRows[] = {
    {NdkStatus::kSuccess, "STATUS_SUCCESS"},
    {NdkStatus::kTimeout, "STATUS_TIMEOUT"},
    {NdkStatus::kPending, "STATUS_PENDING"},
    {NdkStatus::kBufferOverflow, "STATUS_BUFFER_OVERFLOW"},
    {NdkStatus::kDeviceBusy, "STATUS_DEVICE_BUSY"},
    {NdkStatus::kNoMoreEntries, "STATUS_NO_MORE_ENTRIES"},
    {NdkStatus::kUnsuccessful, "STATUS_UNSUCCESSFUL"},
    {NdkStatus::kAccessViolation, "STATUS_ACCESS_VIOLATION"},
    {NdkStatus::kInvalidParameter, "STATUS_INVALID_PARAMETER"},
    {NdkStatus::kInvalidDeviceRequest, "STATUS_INVALID_DEVICE_REQUEST"},
    {NdkStatus::kNoMemory, "STATUS_NO_MEMORY"},
    {NdkStatus::kAccessDenied, "STATUS_ACCESS_DENIED"},
    {NdkStatus::kBufferTooSmall, "STATUS_BUFFER_TOO_SMALL"},
    {NdkStatus::kInvalidParameterMix, "STATUS_INVALID_PARAMETER_MIX"},
    {NdkStatus::kObjectNameNotFound, "STATUS_OBJECT_NAME_NOT_FOUND"},
    {NdkStatus::kDataOverrun, "STATUS_DATA_OVERRUN"},
    {NdkStatus::kDataError, "STATUS_DATA_ERROR"},
    {NdkStatus::kSharingViolation, "STATUS_SHARING_VIOLATION"},
    {NdkStatus::kInsufficientResources, "STATUS_INSUFFICIENT_RESOURCES"},
    {NdkStatus::kIoTimeout, "STATUS_IO_TIMEOUT"},
    {NdkStatus::kNotSupported, "STATUS_NOT_SUPPORTED"},
    {NdkStatus::kInternalError, "STATUS_INTERNAL_ERROR"},
    {NdkStatus::kCancelled, "STATUS_CANCELLED"},
    {NdkStatus::kRemoteResources, "STATUS_REMOTE_RESOURCES"},
    {NdkStatus::kInvalidAddress, "STATUS_INVALID_ADDRESS"},
    {NdkStatus::kInvalidDeviceState, "STATUS_INVALID_DEVICE_STATE"},
    {NdkStatus::kInvalidBufferSize, "STATUS_INVALID_BUFFER_SIZE"},
    {NdkStatus::kTooManyAddresses, "STATUS_TOO_MANY_ADDRESSES"},
    {NdkStatus::kAddressAlreadyExists, "STATUS_ADDRESS_ALREADY_EXISTS"},
    {NdkStatus::kConnectionDisconnected, "STATUS_CONNECTION_DISCONNECTED"},
    {NdkStatus::kConnectionRefused, "STATUS_CONNECTION_REFUSED"},
    {NdkStatus::kAddressAlreadyAssociated, "STATUS_ADDRESS_ALREADY_ASSOCIATED"},
    {NdkStatus::kAddressNotAssociated, "STATUS_ADDRESS_NOT_ASSOCIATED"},
    {NdkStatus::kConnectionInvalid, "STATUS_CONNECTION_INVALID"},
    {NdkStatus::kConnectionActive, "STATUS_CONNECTION_ACTIVE"},
    {NdkStatus::kNetworkUnreachable, "STATUS_NETWORK_UNREACHABLE"},
    {NdkStatus::kHostUnreachable, "STATUS_HOST_UNREACHABLE"},
    {NdkStatus::kRequestAborted, "STATUS_REQUEST_ABORTED"},
    {NdkStatus::kConnectionAborted, "STATUS_CONNECTION_ABORTED"},
    {NdkStatus::kDeviceRemoved, "STATUS_DEVICE_REMOVED"},
    {NdkStatus::kImplementationLimit, "STATUS_IMPLEMENTATION_LIMIT"},
    {NdkStatus::kBadVersion, "NDIS_STATUS_BAD_VERSION"},
    {NdkStatus::kAdapterNotReady, "NDIS_STATUS_ADAPTER_NOT_READY"},
};

}  // namespace

std::string_view StatusName(NdkStatus status) {
  for (const Row& row : kRows) {
    if (row.status == status) return row.name;
  }
  return "STATUS_UNKNOWN";
}

std::optional<NdkStatus> StatusFromNumber(uint32_t number) {
  for (const Row& row : kRows) {
    if (static_cast<uint32_t>(row.status) == number) return row.status;
  }
  return std::nullopt;
}

std::optional<NdkStatus> StatusFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.status;
  }
  return std::nullopt;
}

}  // namespace rdmabroker
