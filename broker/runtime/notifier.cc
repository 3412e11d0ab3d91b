// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/notifier.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dataplane/start_thread.h"

namespace rdmabroker {
namespace {

// How soon the thread notices that it is to stop while the supervisor does not read.
constexpr std::chrono::milliseconds kLook{100};
// poll(2) may find room that sendmsg(2) does not.
constexpr std::chrono::milliseconds kRest{5};

// ETOOMANYREFS: this user has too many descriptors on their way.
bool MayTryAgain(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ETOOMANYREFS;
}

// The latest message of these kinds makes earlier ones useless.
absl::string_view ReplaceableKind(absl::string_view state) {
  for (const absl::string_view kind : {"STATUS=", "WATCHDOG=1"}) {
    if (absl::StartsWith(state, kind)) return kind;
  }
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Notifier>> Notifier::Open(absl::string_view path) {
  std::string address(path);
  const bool abstract = absl::StartsWith(path, "@");
  if ((!abstract && !absl::StartsWith(path, "/")) || path.size() >= sizeof sockaddr_un().sun_path) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NOTIFY_SOCKET: ", path, ": not the path of a Unix socket; start the process without it, or as systemd does"));
  }
  if (abstract) address[0] = '\0';
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return absl::ResourceExhaustedError("NOTIFY_SOCKET: this process gets no descriptor");
  std::array<UniqueFd, kReserve> reserve;
  for (UniqueFd& spare : reserve) {
    spare.Reset(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!spare) return absl::ResourceExhaustedError("NOTIFY_SOCKET: this process gets no descriptor");
  }
  std::unique_ptr<Notifier> notifier(new Notifier(std::move(address), std::move(socket), std::move(reserve)));
  // The first message tries again if the supervisor does not listen yet.
  (void)notifier->Connect();
  return notifier;
}

Notifier::~Notifier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

int Notifier::Connect() {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  return ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), length) == 0 ? 0 : errno;
}

int Notifier::TrySend(const std::string& state, int fd) {
  iovec text = {const_cast<char*>(state.data()), state.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const auto send = [&] { return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0 ? 0 : errno; };
  const int error = send();
  // Another process may listen there now.
  if ((error != ECONNREFUSED && error != ENOTCONN && error != ECONNRESET) || Connect() != 0) return error;
  return send();
}

absl::Status Notifier::Send(const std::string& state, int fd) {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty()) return Queue(state, fd);
  const int error = TrySend(state, fd);
  if (error == 0) return absl::OkStatus();
  if (MayTryAgain(error)) return Queue(state, fd);
  return absl::ErrnoToStatus(error, "NOTIFY_SOCKET: the supervisor cannot be told; is it still there?");
}

absl::Status Notifier::Queue(const std::string& state, int fd) {
  // The first one may be on its way.
  if (const absl::string_view kind = ReplaceableKind(state); !kind.empty() && queue_.size() > 1) {
    std::erase_if(queue_, [&, first = &queue_.front()](const Message& queued) {
      return &queued != first && absl::StartsWith(queued.state, kind);
    });
  }
  if (queue_.size() == kMostQueued) {
    return absl::ResourceExhaustedError("NOTIFY_SOCKET: the supervisor does not read; is it stopped?");
  }
  if (!thread_.joinable()) thread_ = StartThread([this] { Work(); });
  if (!thread_.joinable()) return absl::ResourceExhaustedError("NOTIFY_SOCKET: this process gets no thread");
  Message message{state, fd < 0 ? UniqueFd() : Duplicate(fd)};
  if (fd >= 0 && !message.fd) return absl::ErrnoToStatus(errno, "NOTIFY_SOCKET: a descriptor cannot be kept");
  queue_.push_back(std::move(message));
  changed_.notify_one();
  return absl::OkStatus();
}

UniqueFd Notifier::Duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy || errno != EMFILE) return copy;
  const auto spare = std::find_if(reserve_.begin(), reserve_.end(), [](const UniqueFd& one) { return bool{one}; });
  // dup3 replaces the spare one in one step, so that no other thread takes its number meanwhile.
  if (spare == reserve_.end() || ::dup3(fd, spare->get(), O_CLOEXEC) < 0) return copy;
  return std::move(*spare);
}

void Notifier::Restock(UniqueFd sent) {
  const auto missing = std::find_if(reserve_.begin(), reserve_.end(), [](const UniqueFd& one) { return !one; });
  // dup3 lets go of what was sent and keeps the number, so that this works while the process gets no descriptor.
  if (!sent || missing == reserve_.end()) return;
  if (::dup3(socket_.get(), sent.get(), O_CLOEXEC) >= 0) *missing = std::move(sent);
}

void Notifier::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    // Only this thread takes messages out, and a deque leaves them where they are.
    Message& message = queue_.front();
    lock.unlock();
    pollfd wait = {socket_.get(), POLLOUT, 0};
    ::poll(&wait, 1, static_cast<int>(kLook.count()));
    const int error = TrySend(message.state, message.fd.get());
    lock.lock();
    // A supervisor that has gone hears of it no more.
    if (!MayTryAgain(error)) {
      Restock(std::move(message.fd));
      queue_.pop_front();
    } else {
      changed_.wait_for(lock, kRest, [this] { return stopping_; });
    }
  }
}

}  // namespace rdmabroker
