// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_MEMORY_CHECKS_H_
#define DATAPLANE_MEMORY_CHECKS_H_

#include <cstddef>

#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/status.h"
#include "dataplane/operation.h"

namespace rdmabroker {

// Refusals of regions and windows that all kinds of adapter share, each with a hint (refusal.h).

// kSuccess, or kInvalidParameter.
NdkStatus CheckRegistration(const void* address, size_t length, MrFlags flags, const AdapterInfo& info);
// kInvalidDeviceRequest: Register of a region for fast-register, or the reverse.
NdkStatus RefuseKindOfRegion(bool fast_register);
// kInvalidParameter: the region is registered already.
NdkStatus RefuseRegistered();
// kInvalidDeviceRequest: it is not.
NdkStatus RefuseUnregistered();
// kNotSupported: fast-register on an adapter that has none.
NdkStatus RefuseFastRegister();
// kDeviceBusy.
NdkStatus RefuseBoundWindows();
// kInvalidParameter: a bind beyond the region, or of nothing.
NdkStatus RefuseBindBeyond(size_t length);
// kAccessViolation: a bind with rights that the region does not have.
NdkStatus RefuseBindRights();
// kInvalidDeviceRequest: what is to be invalidated is not valid.
NdkStatus RefuseInvalidation();

}  // namespace rdmabroker

#endif  // DATAPLANE_MEMORY_CHECKS_H_
