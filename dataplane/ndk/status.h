// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_STATUS_H_
#define DATAPLANE_NDK_STATUS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace rdmabroker {

// The statuses of NDKPI, with the NTSTATUS numbers that Microsoft publishes (ntstatus.h, ndis.h).
// Every outcome in this product is one of these, on the wire (ndk_status.proto has the same names and numbers)
// and in C++. Whether a retry can help is a property of the outcome, not of the status: see Outcome in the proto.
enum class NdkStatus : uint32_t {
  kSuccess = 0x00000000,
  kTimeout = 0x00000102,
  kPending = 0x00000103,
  kBufferOverflow = 0x80000005,
  kDeviceBusy = 0x80000011,
  kNoMoreEntries = 0x8000001A,
  kUnsuccessful = 0xC0000001,
  kAccessViolation = 0xC0000005,
  kInvalidParameter = 0xC000000D,
  kInvalidDeviceRequest = 0xC0000010,
  kNoMemory = 0xC0000017,
  kAccessDenied = 0xC0000022,
  kBufferTooSmall = 0xC0000023,
  kInvalidParameterMix = 0xC0000030,
  kObjectNameNotFound = 0xC0000034,
  kDataOverrun = 0xC000003C,
  kDataError = 0xC000003E,
  kSharingViolation = 0xC0000043,
  kInsufficientResources = 0xC000009A,
  kIoTimeout = 0xC00000B5,
  kNotSupported = 0xC00000BB,
  kInternalError = 0xC00000E5,
  kCancelled = 0xC0000120,
  kRemoteResources = 0xC000013D,
  kInvalidAddress = 0xC0000141,
  kInvalidDeviceState = 0xC0000184,
  kInvalidBufferSize = 0xC0000206,
  kTooManyAddresses = 0xC0000209,
  kAddressAlreadyExists = 0xC000020A,
  kConnectionDisconnected = 0xC000020C,
  kConnectionRefused = 0xC0000236,
  kAddressAlreadyAssociated = 0xC0000238,
  kAddressNotAssociated = 0xC0000239,
  kConnectionInvalid = 0xC000023A,
  kConnectionActive = 0xC000023B,
  kNetworkUnreachable = 0xC000023C,
  kHostUnreachable = 0xC000023D,
  kRequestAborted = 0xC0000240,
  kConnectionAborted = 0xC0000241,
  kDeviceRemoved = 0xC00002B6,
  kImplementationLimit = 0xC000042B,
  kBadVersion = 0xC0010004,
  kAdapterNotReady = 0xC0010011,
};

// True for success and for PENDING and TIMEOUT, which NTSTATUS counts as successes; warnings (0x8...) are not.
constexpr bool IsSuccess(NdkStatus status) { return static_cast<int32_t>(status) >= 0; }

// "STATUS_SHARING_VIOLATION"; "NDIS_STATUS_BAD_VERSION" for the two that NDIS names. Never empty.
std::string_view StatusName(NdkStatus status);

// Empty for a number that is not in the enumeration.
std::optional<NdkStatus> StatusFromNumber(uint32_t number);
// Empty for a name that StatusName does not give.
std::optional<NdkStatus> StatusFromName(std::string_view name);

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_STATUS_H_
