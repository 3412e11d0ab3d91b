// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_ADDRESS_MESSAGE_H_
#define BROKER_FABRIC_ADDRESS_MESSAGE_H_

#include <optional>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// The address that a message of the kernel's list of addresses (RTM_NEWADDR) tells of: the local one on a link that has
// two. Nothing for an address that cannot be bound to, and for a malformed message. `first` is what a netlink message
// carries, and `length` its length.
std::optional<IpAddress> ParseAddressMessage(const void* first, int length);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_ADDRESS_MESSAGE_H_
