// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_OUTSIDER_H_
#define BROKER_FABRIC_IWARP_TESTING_OUTSIDER_H_

#include "broker/core/fabric_messages.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// What another program's bind with these options comes to: 0, and `outsider` is the socket where that is asked for, or
// an errno.
int BindAsOutsider(const SocketAddress& address, bool reuse_address, bool reuse_port, UniqueFd* outsider = nullptr);

// No other program can bind to the endpoint's address.
void ExpectExclusive(const SocketAddress& address, EndpointUse use);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_OUTSIDER_H_
