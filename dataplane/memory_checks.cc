// SPDX-License-Identifier: Apache-2.0

#include "dataplane/memory_checks.h"

#include <cstdint>

#include "dataplane/refusal.h"

namespace rdmabroker {

NdkStatus CheckRegistration(const void* address, size_t length, MrFlags flags, const AdapterInfo& info) {
  const auto base = reinterpret_cast<uint64_t>(address);
  if (address == nullptr || length == 0 || base + length < base || length > info.max_registration_size) {
    return Refuse(NdkStatus::kInvalidParameter, "%d bytes at %p; an address that is not null and 1 to %d bytes", length,
                  address, info.max_registration_size);
  }
  if ((flags & ~kMrKnownFlags) == 0) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidParameter, "flags: %#x are not known", flags & ~kMrKnownFlags);
}

NdkStatus RefuseKindOfRegion(bool fast_register) {
  return Refuse(NdkStatus::kInvalidDeviceRequest, "region: it was made %s fast-register%s",
                fast_register ? "for" : "without",
                fast_register ? "; register it by QueuePair::FastRegister" : "; register it by Register");
}

NdkStatus RefuseRegistered() {
  return Refuse(NdkStatus::kInvalidParameter, "region: it is registered; deregister it first");
}

NdkStatus RefuseUnregistered() {
  return Refuse(NdkStatus::kInvalidDeviceRequest, "region: it is not registered; register it first");
}

NdkStatus RefuseFastRegister() {
  return Refuse(NdkStatus::kNotSupported, "this adapter has no fast-register; use regions and memory windows");
}

NdkStatus RefuseBoundWindows() {
  return Refuse(NdkStatus::kDeviceBusy, "region: windows are bound to it; invalidate or close them first");
}

NdkStatus RefuseBindBeyond(size_t length) {
  return Refuse(NdkStatus::kInvalidParameter, "window of %d bytes: it must lie within the region, and have a byte",
                length);
}

NdkStatus RefuseBindRights() {
  return Refuse(NdkStatus::kAccessViolation,
                "flags: remote write, which a window can only give where its region was registered with local write");
}

NdkStatus RefuseInvalidation() {
  return Refuse(NdkStatus::kInvalidDeviceRequest, "region or window: it has no token that could be invalidated");
}

}  // namespace rdmabroker
