// SPDX-License-Identifier: Apache-2.0

#include "broker/control/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rdmabroker {
namespace {

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

absl::StatusOr<bool> SomebodyListens(const sockaddr_un& address, int type) {
  const UniqueFd probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return SystemError(address.sun_path, "cannot make a socket to see whether a broker listens on it");
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

absl::Status GiveToGroup(const ListeningSocket& wanted) {
  if (!wanted.group || ::lchown(wanted.path.c_str(), static_cast<uid_t>(-1), *wanted.group) == 0) {
    return absl::OkStatus();
  }
  return SystemError(wanted.path, "cannot give the socket to its group");
}

int OptionOf(int fd, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

// Whether it is such a socket, and its name is still there.
bool ListensOn(int fd, const ListeningSocket& wanted) {
  sockaddr_un address = {};
  socklen_t length = sizeof address;
  struct stat named = {};
  return OptionOf(fd, SO_DOMAIN) == AF_UNIX && OptionOf(fd, SO_TYPE) == wanted.type &&
         OptionOf(fd, SO_ACCEPTCONN) == 1 && ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         length > offsetof(sockaddr_un, sun_path) && wanted.path == address.sun_path &&
         ::lstat(wanted.path.c_str(), &named) == 0 && S_ISSOCK(named.st_mode);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenOnUnixSocket(const ListeningSocket& wanted) {
  const std::string& path = wanted.path;
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
    const auto live = SomebodyListens(address, wanted.type);
    if (!live.ok()) return live.status();
    if (*live) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": a running broker listens on it; stop that one first"));
    }
    if (::unlink(path.c_str()) != 0) return SystemError(path, "cannot remove the stale socket");
  }
  UniqueFd listener(::socket(AF_UNIX, wanted.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return SystemError(path, "cannot make a socket");
  // The mode before the name is there, so that nobody gets in between.
  ::fchmod(listener.get(), wanted.mode);
  const mode_t former = ::umask(static_cast<mode_t>(~wanted.mode & 0777));
  const int bound = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(former);
  if (bound != 0) return SystemError(path, "cannot bind");
  if (absl::Status given = GiveToGroup(wanted); !given.ok()) return given;
  if (::listen(listener.get(), SOMAXCONN) != 0) return SystemError(path, "cannot listen");
  return listener;
}

void KeptSockets::Forget(const std::string& kept_name) {
  std::erase_if(inherited_, [&](const KeptDescriptor& left) {
    if (!kept_name.empty() && left.name != kept_name) return false;
    keep_.ForgetNow(left.name);
    return true;
  });
}

absl::StatusOr<UniqueFd> KeptSockets::Listen(const ListeningSocket& wanted, const std::string& name) {
  const auto found = std::find_if(inherited_.begin(), inherited_.end(), [&](const KeptDescriptor& inherited) {
    return ListensOn(inherited.fd.get(), wanted);
  });
  if (found == inherited_.end()) {
    absl::StatusOr<UniqueFd> made = ListenOnUnixSocket(wanted);
    if (!made.ok()) return made;
    // One that has had the name must not take it along.
    const std::string kept_name = "socket." + name;
    Forget(kept_name);
    keep_.Keep(kept_name, made->get());
    return made;
  }
  UniqueFd socket = std::move(found->fd);
  inherited_.erase(found);
  // systemd makes those of its socket units block at every start (NonBlocking= of systemd.service), and an accept for
  // somebody who is not there would hold up the loop.
  if (::fcntl(socket.get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) return SystemError(wanted.path, "cannot be used");
  // Who may connect may be configured otherwise by now.
  if (::chmod(wanted.path.c_str(), wanted.mode) != 0) return SystemError(wanted.path, "cannot set its mode");
  if (absl::Status given = GiveToGroup(wanted); !given.ok()) return given;
  return socket;
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

}  // namespace rdmabroker
