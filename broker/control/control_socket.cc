// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_socket.h"

#include <fcntl.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Descriptors given to gRPC come from a range of their own, used in turn: so a number returns as late as possible, and
// a call that outlives its connection does not find another's caller behind it, whatever gRPC does.
constexpr int kFirstFd = 1024;
constexpr int kFdRange = 16384;

int LastFd() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kFirstFd + kFdRange));
  return std::max(most - 1, 0);
}

// The upper half of what there is, where that is little.
int FirstFd() { return std::min(kFirstFd, LastFd() / 2); }

}  // namespace

ControlSocket::ControlSocket(UniqueFd listener, grpc::Server& server, Watcher& watcher, Metrics& metrics,
                             const Settings& settings)
    : server_(server),
      watcher_(watcher),
      metrics_(metrics),
      settings_(settings),
      first_fd_(FirstFd()),
      last_fd_(LastFd()),
      next_fd_(first_fd_),
      acceptor_(std::move(listener), "control.sock", watcher, [this](UniqueFd fd) { Take(std::move(fd)); }) {}

ControlSocket::~ControlSocket() {
  StopAccepting();
  while (!connections_.empty()) Forget(connections_.begin()->first);
}

void ControlSocket::Set(const Settings& settings) {
  settings_ = settings;
  for (auto& [fd, connection] : connections_) {
    const auto caller = rdmabroker::CallerOf(connection.duplicate.get(), settings_.administrators);
    if (caller) connection.caller = std::make_shared<Caller>(*caller);
  }
}

void ControlSocket::Take(UniqueFd fd) {
  const auto caller = rdmabroker::CallerOf(fd.get(), settings_.administrators);
  if (!caller) return;
  const uid_t uid = caller->identity.uid;
  if (connections_of_uid_[uid] >= settings_.connections_per_uid) {
    metrics_.CountRefusedCaller(CallerRefusal::kTooManyConnections);
    if (const auto left_out = too_many_.Pass(Watcher::Now())) {
      LogWarning("connection refused",
                 {{"uid", uid},
                  {"cause", absl::StrCat("the user has ", settings_.connections_per_uid, " already")},
                  {"left_out", *left_out}});
    }
    return;
  }
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, next_fd_));
  // None is free from there on; below there may be.
  if (!moved) moved.Reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, first_fd_));
  UniqueFd duplicate(moved ? ::fcntl(moved.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!duplicate) {
    const int error = errno;
    metrics_.CountRefusedCaller(CallerRefusal::kNoDescriptor);
    if (const auto left_out = no_descriptor_.Pass(Watcher::Now())) {
      LogWarning("connection refused", {{"uid", uid}, {"cause", std::strerror(error)}, {"left_out", *left_out}});
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
    metrics_.CountRefusedCaller(CallerRefusal::kSilent);
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
