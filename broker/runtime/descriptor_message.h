// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_DESCRIPTOR_MESSAGE_H_
#define BROKER_RUNTIME_DESCRIPTOR_MESSAGE_H_

#include <string_view>

namespace rdmabroker {

// Sends `bytes` over a Unix socket, with a duplicate of `fd` unless that is -1 (SCM_RIGHTS of unix(7)). `flags` are
// those of send(2), besides MSG_NOSIGNAL. False: not all of it went; errno tells why.
bool SendWithDescriptor(int socket, std::string_view bytes, int fd, int flags);

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_DESCRIPTOR_MESSAGE_H_
