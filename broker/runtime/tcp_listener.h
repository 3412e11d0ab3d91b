// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_TCP_LISTENER_H_
#define BROKER_RUNTIME_TCP_LISTENER_H_

#include <string>

#include "absl/status/statusor.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A socket that listens on `address`, IP:PORT, which is the value of the configuration's `key`. "[::]" is every address
// of the machine, IPv4's too. `backlog`: how many connections may wait that nobody has accepted yet. Errors name key
// and address, and what to do: INVALID_ARGUMENT where it is no IP:PORT, ALREADY_EXISTS where the port is in use,
// UNAVAILABLE for what else the system refuses.
absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& key, const std::string& address, int backlog);

// Of a socket, with the port that port 0 has become.
SocketAddress AddressOf(const UniqueFd& socket);

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_TCP_LISTENER_H_
