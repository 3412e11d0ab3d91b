// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_OUTSIDE_H_
#define TESTS_SURVIVE_OUTSIDE_H_

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Takes an IPv4 address as a server does that has nothing to do with the broker, and lets it go. 0, or the error that
// it gets, which what is left of ended connections does not keep away.
int BindOutside(const SocketAddress& address);

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_OUTSIDE_H_
