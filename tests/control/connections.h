// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_CONNECTIONS_H_
#define TESTS_CONTROL_CONNECTIONS_H_

#include <sys/types.h>

#include <string>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A connection to the Unix socket `path`, made with the credentials of `uid` and `gid`, which the kernel then tells the
// broker. Needs root for other users than the own. Empty where it is refused; errno tells why.
UniqueFd ConnectAs(uid_t uid, gid_t gid, const std::string& path, int type);
// Connects to a TCP port, IP:PORT at 127.0.0.1, from this address; 127.0.0.1 and its neighbors are as many hosts.
UniqueFd ConnectFrom(const char* host, const std::string& address);

// Whether the other end has closed the connection. Drops an octet that has come.
bool IsOver(const UniqueFd& connection);

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_CONNECTIONS_H_
