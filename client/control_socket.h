// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CONTROL_SOCKET_H_
#define CLIENT_CONTROL_SOCKET_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <string_view>

#include "client/values.h"

namespace rdmabroker::client {

// Where a broker listens unless it is told otherwise.
inline constexpr std::string_view kDefaultControlSocket = "/run/rdma-broker/control.sock";

// The environment's RDMA_BROKER_SOCKET if it is set and not empty, else kDefaultControlSocket.
std::string ControlSocketPath();

// The hand-off socket of the broker that has this control socket: "handoff.sock" in the same folder.
std::string HandoffSocketPath(std::string_view control_socket);

// Why a Unix socket cannot have this path; empty if it can. Its limit is 107 bytes (unix(7)).
std::string_view SocketPathProblem(std::string_view path);

// Whether a process holds that socket and listens there. It may be a supervisor, which keeps the socket until another
// broker answers. Never waits.
bool SomebodyListens(const std::string& control_socket);

// Why no broker answers on that socket and what to do, for a person, by a look at it: nobody listens, this user may not
// use it, or the broker is busy (kConnectionRefused); or this process has no descriptor for it
// (kInsufficientResources). It looks up the names of a user and a group, which may ask a directory service.
Outcome NoBroker(const std::string& control_socket);

// Opens a connection to the control socket that no other channel of the process shares. SocketPathProblem must find
// nothing wrong with the path.
//
// Switches off the deadlock detection of Abseil's mutexes in this process: Debian builds it in, and it ends the process
// on lock orders within gRPC that are harmless.
std::shared_ptr<grpc::Channel> OpenControlChannel(const std::string& control_socket);

}  // namespace rdmabroker::client

#endif  // CLIENT_CONTROL_SOCKET_H_
