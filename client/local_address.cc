// SPDX-License-Identifier: Apache-2.0

#include "client/local_address.h"

#include <cstring>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {

NdkStatus CopyAddress(const SocketAddress& source, sockaddr* address, uint32_t* length) {
  if (length == nullptr || (address == nullptr && *length > 0)) {
    return Refuse(NdkStatus::kInvalidParameter, "address, length: missing");
  }
  const KernelAddress kernel = ToKernel(source);
  const uint32_t room = *length;
  const bool fits = room >= kernel.length;
  if (fits) std::memcpy(address, &kernel.storage, kernel.length);
  *length = kernel.length;
  if (fits) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kBufferTooSmall, "length: %d bytes; the address has %d", room, kernel.length);
}

}  // namespace rdmabroker::client
