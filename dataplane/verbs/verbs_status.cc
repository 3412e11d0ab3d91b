// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/verbs_status.h"

#include <cstdlib>

namespace rdmabroker::verbs {

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

// What the consumer can be to blame for has been looked at before the hardware is asked.
NdkStatus FromPost(int result) {
  // Soft iWARP's library hands on what write(2) has returned (siw_db in rdma-core's providers/siw/siw.c).
  switch (result == -1 && errno != 0 ? errno : std::abs(result)) {
    case 0:
      return NdkStatus::kSuccess;
    case ENOMEM:
      return NdkStatus::kInsufficientResources;
    case ENOTCONN:
      return NdkStatus::kConnectionInvalid;
    case EOPNOTSUPP:
    case ENOSYS:
      return NdkStatus::kNotSupported;
    default:
      return NdkStatus::kUnsuccessful;
  }
}

}  // namespace rdmabroker::verbs
