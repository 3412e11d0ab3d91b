// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_LOCAL_ADDRESS_H_
#define CLIENT_LOCAL_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>

#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker::client {

// NDK's way of handing out an address: a sockaddr_in or sockaddr_in6 of *length bytes. `length` is the buffer's size
// and becomes the address's; `address` may be null if it is 0. kBufferTooSmall: it is too short, and nothing but
// *length has changed. kInvalidParameter: a pointer is null.
NdkStatus CopyAddress(const SocketAddress& source, sockaddr* address, uint32_t* length);

}  // namespace rdmabroker::client

#endif  // CLIENT_LOCAL_ADDRESS_H_
