// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/verbs_status.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "dataplane/catch_exceptions.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/locked_memory.h"

namespace rdmabroker::verbs {
const char* ErrorText(int error) {
  const char* const text = error == 0 ? nullptr : ::strerrordesc_np(error);
  return text == nullptr ? "its driver says no more" : text;
}

NdkStatus RefuseByDevice(NdkStatus status, int error) {
  return Refuse(status, "the device refuses: %s (errno %d); the kernel's log may say why", ErrorText(error), error);
}

NdkStatus StatusOfErrno(int error) {
  switch (error) {
    case 0:
      return NdkStatus::kSuccess;
    case EINVAL:
      return NdkStatus::kInvalidParameter;
    case EFAULT:  // Memory that is not mapped, or not writable.
      return NdkStatus::kAccessViolation;
    case EPERM:
    case EACCES:
      return NdkStatus::kAccessDenied;
    case ENOMEM:  // Also RLIMIT_MEMLOCK.
    case EAGAIN:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      return NdkStatus::kInsufficientResources;
    case EBUSY:
      return NdkStatus::kDeviceBusy;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
      return NdkStatus::kNotSupported;
    case ENODEV:
    case ENXIO:
    case EIO:
      return NdkStatus::kDeviceRemoved;
    case ETIMEDOUT:
      return NdkStatus::kIoTimeout;
    default:
      return NdkStatus::kUnsuccessful;
  }
}

NdkStatus FromPointer(const void* object, std::optional<uint64_t> length) {
  if (object != nullptr) return NdkStatus::kSuccess;
  const int error = errno;
  const NdkStatus status = error != 0 ? StatusOfErrno(error) : NdkStatus::kUnsuccessful;
  if (error != ENOMEM) return RefuseByDevice(status, error);
  const auto refuse = [&] {
    const std::string objection = Objection(ReadLockedMemory(), length);
    if (objection.empty()) return RefuseByDevice(status, error);
    return Refuse(status, "the device refuses: %s (errno %d). %s", ErrorText(error), error, objection);
  };
  return CatchExceptions(refuse, [&](NdkStatus) { return RefuseByDevice(status, error); });
}

NdkStatus FromErrnoResult(int result) {
  return result == 0 ? NdkStatus::kSuccess : RefuseByDevice(StatusOfErrno(std::abs(result)), std::abs(result));
}

// What the consumer can be to blame for has been looked at before the hardware is asked.
NdkStatus FromPost(int result) {
  // Soft iWARP's library hands on what write(2) has returned (siw_db in rdma-core's providers/siw/siw.c).
  const int error = result == -1 && errno != 0 ? errno : std::abs(result);
  switch (error) {
    case 0:
      return NdkStatus::kSuccess;
    case ENOMEM:
      return RefuseByDevice(NdkStatus::kInsufficientResources, error);
    case ENOTCONN:
      return RefuseByDevice(NdkStatus::kConnectionInvalid, error);
    case EOPNOTSUPP:
    case ENOSYS:
      return RefuseByDevice(NdkStatus::kNotSupported, error);
    default:
      return RefuseByDevice(NdkStatus::kUnsuccessful, error);
  }
}

}  // namespace rdmabroker::verbs
