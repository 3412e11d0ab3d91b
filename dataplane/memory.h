// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_MEMORY_H_
#define DATAPLANE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "dataplane/data_object.h"
#include "dataplane/operation.h"

namespace rdmabroker {

// The page size of fast-registered regions.
inline constexpr size_t kFastRegisterPageSize = 4096;

// NDK_MR. Made either for Register or for fast-registering, never both; the other kind's functions then return
// kInvalidDeviceRequest. Closing a region deregisters it once no window is bound to it: a window lets go of the region
// when the window is invalidated by either side, is bound elsewhere with success, or is closed.
class MemoryRegion : public DataObject {
 public:
  // kInvalidParameter: the address is null, the length is 0 or above max_registration_size, the range wraps around, a
  // flag is unknown, or the region is registered already. kInsufficientResources. The memory must stay mapped until
  // Deregister returns or the close completes.
  virtual NdkStatus Register(void* address, size_t length, MrFlags flags) = 0;

  // kDeviceBusy while windows are bound to the region. Once it has returned success, nothing reads or writes the memory
  // any more; requests that still name it fail.
  virtual NdkStatus Deregister() = 0;

  // kImplementationLimit: more pages than the adapter can do. `remote_access` allows remote flags later on.
  virtual NdkStatus InitializeFastRegister(uint32_t page_count, bool remote_access) = 0;

  // Good once Register or InitializeFastRegister has succeeded; the remote one of a fast-registered region changes with
  // each QueuePair::FastRegister.
  virtual LocalToken local_token() const = 0;
  virtual RemoteToken remote_token() const = 0;
};

// NDK_MW. Closing it ends its binding.
class MemoryWindow : public DataObject {
 public:
  // Good as soon as QueuePair::Bind has returned success.
  virtual RemoteToken remote_token() const = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_MEMORY_H_
