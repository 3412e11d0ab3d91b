// SPDX-License-Identifier: Apache-2.0

#include "client/local_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace rdmabroker::client {

NdkStatus CopyAddress(const SocketAddress& source, sockaddr* address, uint32_t* length) {
  if (length == nullptr || (address == nullptr && *length > 0)) return NdkStatus::kInvalidParameter;
  sockaddr_storage storage = {};
  uint32_t needed = sizeof(sockaddr_in);
  if (source.ip.family == IpFamily::kIpv4) {
    auto& ipv4 = reinterpret_cast<sockaddr_in&>(storage);
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(source.port);
    std::memcpy(&ipv4.sin_addr, source.ip.bytes.data(), sizeof ipv4.sin_addr);
  } else {
    auto& ipv6 = reinterpret_cast<sockaddr_in6&>(storage);
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(source.port);
    std::memcpy(&ipv6.sin6_addr, source.ip.bytes.data(), sizeof ipv6.sin6_addr);
    ipv6.sin6_scope_id = source.ip.scope_id;
    needed = sizeof(sockaddr_in6);
  }
  const bool fits = *length >= needed;
  if (fits) std::memcpy(address, &storage, needed);
  *length = needed;
  return fits ? NdkStatus::kSuccess : NdkStatus::kBufferTooSmall;
}

}  // namespace rdmabroker::client
