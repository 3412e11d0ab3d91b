// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_socket.h"

#include <fcntl.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rdmabroker {
namespace {

// Descriptors given to gRPC come from a range of their own, used in turn: so a number returns as late as possible, and
// a call that outlives its connection does not find another's caller behind it, whatever gRPC does.
constexpr int kFirstFd = 1024;
constexpr int kFdRange = 16384;

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

bool SomebodyListens(const sockaddr_un& address, int type) {
  const UniqueFd probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  // EAGAIN: its backlog is full, so it lives.
  return errno != ECONNREFUSED && errno != ENOENT;
}

// Others hold the lock for the few system calls of a start. Whoever may read the folder can hold it for ever, and must
// not hold up a start or a stop for long.
constexpr absl::Duration kLockPatience = absl::Seconds(2);
constexpr absl::Duration kLockRetry = absl::Milliseconds(5);

// Keeps other brokers from looking at the sockets of a folder, or changing them, while this one does: until the
// descriptor is closed.
absl::StatusOr<UniqueFd> LockFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return SystemError(path, "cannot open its folder");
  const absl::Time end = absl::Now() + kLockPatience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return SystemError(path, "cannot lock its folder");
    if (absl::Now() > end) {
      return absl::UnavailableError(
          absl::StrCat(path, ": another process holds a lock on its folder; end that one, or name another folder"));
    }
    absl::SleepFor(kLockRetry);
  }
  return fd;
}

int LastFd() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kFirstFd + kFdRange));
  return std::max(most - 1, 0);
}

// The upper half of what there is, where that is little.
int FirstFd() { return std::min(kFirstFd, LastFd() / 2); }

}  // namespace

absl::StatusOr<UniqueFd> ListenOnUnixSocket(const std::string& path, int type, mode_t mode,
                                            std::optional<gid_t> group) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a socket's path has 1 to ", sizeof address.sun_path - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // From the look at what is there until the socket listens: another broker would take this one's for stale till then.
  const auto lock = LockFolderOf(path);
  if (!lock.ok()) return lock.status();
  struct stat existing = {};
  if (::lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": exists and is no socket; remove it or name another path"));
    }
    if (SomebodyListens(address, type)) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": a running broker listens on it; stop that one first"));
    }
    if (::unlink(path.c_str()) != 0) return SystemError(path, "cannot remove the stale socket");
  }
  UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return SystemError(path, "cannot make a socket");
  // The mode before the name is there, so that nobody gets in between.
  ::fchmod(listener.get(), mode);
  const mode_t former = ::umask(static_cast<mode_t>(~mode & 0777));
  const int bound = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(former);
  if (bound != 0) return SystemError(path, "cannot bind");
  if (group && ::lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return SystemError(path, "cannot give the socket to its group");
  }
  if (::listen(listener.get(), SOMAXCONN) != 0) return SystemError(path, "cannot listen");
  return listener;
}

SocketName::SocketName(std::string path) : path_(std::move(path)) {
  struct stat named = {};
  if (::lstat(path_.c_str(), &named) != 0) return;
  device_ = named.st_dev;
  inode_ = named.st_ino;
}

SocketName::~SocketName() {
  // Without the lock, where it cannot be had, another broker's socket could only go by the narrowest of chances.
  const auto lock = LockFolderOf(path_);
  struct stat named = {};
  if (inode_ == 0 || ::lstat(path_.c_str(), &named) != 0) return;
  if (named.st_dev == device_ && named.st_ino == inode_) ::unlink(path_.c_str());
}

ControlSocket::ControlSocket(UniqueFd listener, grpc::Server& server, Watcher& watcher, const Settings& settings)
    : server_(server),
      watcher_(watcher),
      settings_(settings),
      first_fd_(FirstFd()),
      last_fd_(LastFd()),
      next_fd_(first_fd_),
      acceptor_(std::move(listener), "control.sock", watcher, [this](UniqueFd fd) { Take(std::move(fd)); }) {}

ControlSocket::~ControlSocket() {
  StopAccepting();
  while (!connections_.empty()) Forget(connections_.begin()->first);
}

void ControlSocket::Take(UniqueFd fd) {
  const auto caller = rdmabroker::CallerOf(fd.get(), settings_.administrators);
  if (!caller) return;
  const uid_t uid = caller->identity.uid;
  if (connections_of_uid_[uid] >= settings_.connections_per_uid) {
    if (const auto left_out = too_many_.Pass(Watcher::Now())) {
      spdlog::warn("connection refused uid={} limit={} left_out={}", uid, settings_.connections_per_uid, *left_out);
    }
    return;
  }
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, next_fd_));
  // None is free from there on; below there may be.
  if (!moved) moved.Reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, first_fd_));
  UniqueFd duplicate(moved ? ::fcntl(moved.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!duplicate) {
    const int error = errno;
    if (const auto left_out = no_descriptor_.Pass(Watcher::Now())) {
      spdlog::warn("connection refused uid={} cause=\"{}; raise LimitNOFILE\" left_out={}", uid, std::strerror(error),
                   *left_out);
    }
    return;
  }
  const int number = moved.get();
  next_fd_ = number >= last_fd_ ? first_fd_ : number + 1;
  // gRPC had this number for a connection that is gone, or it could not be free.
  Forget(number);
  Connection& connection = connections_[number];
  ++connections_of_uid_[uid];
  connection.caller = std::make_shared<Caller>(*caller);
  connection.duplicate = std::move(duplicate);
  connection.watch =
      watcher_.Watch(connection.duplicate.get(), EPOLLRDHUP, [this, number](uint32_t) { Forget(number); });
  connection.silence = watcher_.StartTimer(Watcher::Now() + settings_.silence_timeout, [this, number] {
    ::shutdown(connections_.at(number).duplicate.get(), SHUT_RDWR);
    Forget(number);
  });
  grpc::AddInsecureChannelFromFd(&server_, moved.Release());
}

void ControlSocket::Forget(int fd) {
  const auto connection = connections_.find(fd);
  if (connection == connections_.end()) return;
  watcher_.Unwatch(connection->second.watch);
  watcher_.CancelTimer(connection->second.silence);
  const auto count = connections_of_uid_.find(connection->second.caller->identity.uid);
  if (--count->second == 0) connections_of_uid_.erase(count);
  connections_.erase(connection);
}

std::shared_ptr<const Caller> ControlSocket::CallerOfCall(const std::string& peer) {
  constexpr std::string_view kPrefix = "fd:";
  int fd = -1;
  if (peer.compare(0, kPrefix.size(), kPrefix) != 0) return nullptr;
  const char* end = peer.data() + peer.size();
  const auto [stop, error] = std::from_chars(peer.data() + kPrefix.size(), end, fd);
  if (error != std::errc() || stop != end) return nullptr;
  const auto connection = connections_.find(fd);
  if (connection == connections_.end()) return nullptr;
  watcher_.CancelTimer(std::exchange(connection->second.silence, TimerId::kNone));
  return connection->second.caller;
}

}  // namespace rdmabroker
