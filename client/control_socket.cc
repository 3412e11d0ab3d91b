// SPDX-License-Identifier: Apache-2.0

#include "client/control_socket.h"

#include <grp.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/synchronization/mutex.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::client {
namespace {

// A session that may return has Limits.session_grace_ms for it; connecting to a local socket is cheap.
constexpr int kFirstReconnectMs = 20;
constexpr int kLongestReconnectMs = 500;

// The errno of a connection to the socket. 0 and EAGAIN, which a full queue gives, mean that somebody listens.
int ErrorOfConnecting(const std::string& control_socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (control_socket.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, control_socket.data(), control_socket.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  const bool connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return connected ? 0 : errno;
}

std::string NameOfThisUser() {
  std::array<char, 4096> room;
  passwd entry, *found = nullptr;
  const bool known = ::getpwuid_r(::geteuid(), &entry, room.data(), room.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(::geteuid());
}

// Names the group of the socket, or of the folder that hides it.
std::string AdviceToJoin(const std::string& control_socket) {
  struct stat found = {};
  const size_t slash = control_socket.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : control_socket.substr(0, std::max<size_t>(slash, 1));
  const bool admits = ::stat(control_socket.c_str(), &found) == 0
                          ? (found.st_mode & S_IWGRP) != 0
                          : ::stat(folder.c_str(), &found) == 0 && (found.st_mode & S_IXGRP) != 0;
  std::array<char, 4096> room;
  group entry, *owners = nullptr;
  // Membership in root's group would give far more than the socket.
  if (!admits || found.st_gid == 0 || ::getgrgid_r(found.st_gid, &entry, room.data(), room.size(), &owners) != 0 ||
      owners == nullptr) {
    return ": it is for root and the members of the broker's control.socket_group";
  }
  const std::string name = entry.gr_name;
  return ", which is for the group " + name + ": as root, usermod --append --groups " + name + " " + NameOfThisUser() +
         ", and log in again";
}

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
  const int error = ErrorOfConnecting(control_socket);
  return error == 0 || error == EAGAIN;
}

Outcome NoBroker(const std::string& control_socket) {
  Outcome outcome = {.status = NdkStatus::kConnectionRefused, .retryable = true};
  switch (const int error = ErrorOfConnecting(control_socket)) {
    case 0:
    case EAGAIN:
      outcome.hint = "the broker on " + control_socket +
                     " listens, but accepts no clients at the moment or answers too slowly: try again, and see its log "
                     "if that does not help";
      break;
    case EACCES:
    case EPERM:
      outcome.hint = "user " + NameOfThisUser() + " may not use " + control_socket + AdviceToJoin(control_socket);
      break;
    case ENOENT:
    case ECONNREFUSED:
      outcome.hint =
          "no broker listens on " + control_socket + ": start rdma-brokerd, or name its socket in RDMA_BROKER_SOCKET";
      break;
    case EMFILE:
    case ENFILE:
      outcome.status = NdkStatus::kInsufficientResources;
      outcome.hint = "this process gets no descriptor for a connection to " + control_socket +
                     ": close some, or raise RLIMIT_NOFILE";
      break;
    default:
      outcome.hint = "no connection to " + control_socket + ": " + std::generic_category().message(error);
  }
  return outcome;
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
