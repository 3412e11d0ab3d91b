// SPDX-License-Identifier: Apache-2.0

#include "client/local_address.h"

#include <cstring>

#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker::client {

NdkStatus CopyAddress(const SocketAddress& source, sockaddr* address, uint32_t* length) {
  if (length == nullptr || (address == nullptr && *length > 0)) return NdkStatus::kInvalidParameter;
  const KernelAddress kernel = ToKernel(source);
  const bool fits = *length >= kernel.length;
  if (fits) std::memcpy(address, &kernel.storage, kernel.length);
  *length = kernel.length;
  return fits ? NdkStatus::kSuccess : NdkStatus::kBufferTooSmall;
}

}  // namespace rdmabroker::client
