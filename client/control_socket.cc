// SPDX-License-Identifier: Apache-2.0

#include "client/control_socket.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/synchronization/mutex.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::client {
namespace {

// A session that may return has Limits.session_grace_ms for it; connecting to a local socket is cheap.
constexpr int kFirstReconnectMs = 20;
constexpr int kLongestReconnectMs = 500;

}  // namespace

std::string ControlSocketPath() {
  const char* const path = std::getenv("RDMA_BROKER_SOCKET");
  return path != nullptr && *path != '\0' ? path : std::string(kDefaultControlSocket);
}

std::string HandoffSocketPath(std::string_view control_socket) {
  const size_t slash = control_socket.rfind('/');
  const std::string_view folder =
      slash == std::string_view::npos ? std::string_view() : control_socket.substr(0, slash + 1);
  return std::string(folder) + "handoff.sock";
}

std::string_view SocketPathProblem(std::string_view path) {
  if (path.empty()) return "the socket's path is empty";
  if (path.find('\0') != std::string_view::npos) return "the socket's path has a zero byte";
  // The hand-off socket's path may be longer than the control socket's.
  if (path.size() >= sizeof(sockaddr_un::sun_path) || HandoffSocketPath(path).size() >= sizeof(sockaddr_un::sun_path)) {
    return "the socket's path is longer than 107 bytes";
  }
  return {};
}

bool SomebodyListens(const std::string& control_socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (control_socket.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, control_socket.data(), control_socket.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  return errno == EAGAIN;  // Nobody accepts yet, and many wait.
}

std::string NoBrokerHint(std::string_view control_socket) {
  return "no broker answers on " + std::string(control_socket) +
         ": start rdma-brokerd, or name its socket in RDMA_BROKER_SOCKET; only root and the socket's group may use it";
}

std::shared_ptr<grpc::Channel> OpenControlChannel(const std::string& control_socket) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // Requests have ids of their own for that.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel("unix:" + control_socket, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace rdmabroker::client
