// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/scrape_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "broker/monitoring/http_request.h"
#include "broker/runtime/loop.h"
#include "dataplane/start_thread.h"

namespace rdmabroker {
namespace {

// While the system is out of descriptors, say.
constexpr absl::Duration kRest = absl::Milliseconds(100);

}  // namespace

std::unique_ptr<ScrapeServer> ScrapeServer::Start(UniqueFd listener, std::function<std::string()> page,
                                                  absl::Duration patience) {
  std::unique_ptr<ScrapeServer> server(new ScrapeServer(std::move(listener), std::move(page), patience));
  if (!server->stop_) return nullptr;
  server->thread_ = StartThread([self = server.get()] { self->Run(); });
  return server->thread_.joinable() ? std::move(server) : nullptr;
}

ScrapeServer::ScrapeServer(UniqueFd listener, std::function<std::string()> page, absl::Duration patience)
    : listener_(std::move(listener)), page_(std::move(page)), patience_(patience), stop_(::eventfd(0, EFD_CLOEXEC)) {}

ScrapeServer::~ScrapeServer() {
  if (!thread_.joinable()) return;
  // It cannot fail: the descriptor is there, and its counter is 0.
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void ScrapeServer::Run() {
  for (;;) {
    std::vector<pollfd> waits = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    absl::Duration longest = absl::InfiniteDuration();
    for (const Connection& connection : connections_) {
      const bool sends = connection.sent < connection.answer.size();
      waits.push_back({connection.socket.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      longest = std::min(longest, connection.end - Loop::Now());
    }
    // A millisecond more than it takes, so that what is waited for has happened then.
    const auto timeout = longest == absl::InfiniteDuration()
                             ? -1
                             : static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(longest) + 1));
    if (::poll(waits.data(), waits.size(), timeout) < 0 && errno != EINTR) absl::SleepFor(kRest);
    if (waits[0].revents != 0) return;
    auto wait = waits.begin() + 2;
    for (auto connection = connections_.begin(); connection != connections_.end(); ++wait) {
      const bool answered = !connection->answer.empty();
      const bool goes_on = wait->revents == 0 || (answered ? Send(*connection) : Receive(*connection));
      connection = goes_on && Loop::Now() < connection->end ? std::next(connection) : connections_.erase(connection);
    }
    if (waits[1].revents != 0) Accept();
  }
}

void ScrapeServer::Accept() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // Asked again at once, the system would only keep the thread busy.
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) absl::SleepFor(kRest);
    return;
  }
  if (connections_.size() == kMostConnections) connections_.pop_front();
  connections_.push_back({.socket = std::move(socket), .end = Loop::Now() + patience_});
}

bool ScrapeServer::Receive(Connection& connection) {
  char buffer[kMostRequestBytes];
  const ssize_t length =
      ::recv(connection.socket.get(), buffer, kMostRequestBytes - connection.received.size(), MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  if (length == 0) return false;
  connection.received.append(buffer, static_cast<size_t>(length));
  auto answer = AnswerTo(connection.received, page_);
  if (!answer) return true;
  connection.answer = *std::move(answer);
  connection.received = std::string();
  return Send(connection);
}

// What has been answered is closed once the other end is, or its time is up: a connection that is closed with a
// request's body in it would be reset, and the answer lost.
bool ScrapeServer::Send(Connection& connection) {
  if (connection.sent == connection.answer.size()) {
    char ignored[4096];
    const ssize_t length = ::recv(connection.socket.get(), ignored, sizeof ignored, MSG_DONTWAIT);
    return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
  }
  const ssize_t length = ::send(connection.socket.get(), connection.answer.data() + connection.sent,
                                connection.answer.size() - connection.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<size_t>(length);
  return connection.sent < connection.answer.size() || ::shutdown(connection.socket.get(), SHUT_WR) == 0;
}

}  // namespace rdmabroker
