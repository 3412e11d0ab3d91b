// SPDX-License-Identifier: Apache-2.0

// Usage: echo_server SOCKET
// Serves /interop.Echo, whose messages are plain octets, on a Unix socket by proto/rpc. SIGTERM: it takes no new calls,
// and ends with the last of those that have begun. interop.py has the methods' meaning.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "dataplane/unique_fd.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker::rpc {
namespace {

const Methods& EchoMethods() {
  static const Methods kMethods = {{"/interop.Echo/Say", Requests::kOne},  {"/interop.Echo/Metadata", Requests::kOne},
                                   {"/interop.Echo/Fail", Requests::kOne}, {"/interop.Echo/Wait", Requests::kOne},
                                   {"/interop.Echo/Lost", Requests::kOne}, {"/interop.Echo/Pour", Requests::kOne},
                                   {"/interop.Echo/Chat", Requests::kMany}};
  return kMethods;
}

volatile std::sig_atomic_t terminated = 0;
int lost_calls = 0;

// One client's connection, and its calls.
class Peer {
 public:
  Peer(UniqueFd fd, FrameBudget& budget) : fd_(std::move(fd)), rpc_(EchoMethods(), {}, budget, absl::Now()) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] short Awaits() const { return output_.empty() && !rpc_.HasOutput() ? POLLIN : POLLOUT; }
  [[nodiscard]] bool HasUnread() const { return !input_.empty() && output_.empty(); }
  [[nodiscard]] bool IsOver() const { return over_; }
  [[nodiscard]] std::optional<absl::Time> NextDeadline() const { return rpc_.NextDeadline(); }
  void Drain() { rpc_.Drain(absl::Now()); }

  // Reads, handles and writes what can be now.
  void Turn(short ready) {
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && !ReadSome()) return End();
    rpc_.PassTime(absl::Now());
    if (output_.empty()) input_.erase(0, rpc_.Receive(input_, absl::Now()));
    HandleEvents();
    do {
      if (output_.empty()) output_ = rpc_.TakeOutput();
      HandleEvents();
      if (!WriteSome()) return End();
    } while (output_.empty() && rpc_.HasOutput());
    if (output_.empty() && rpc_.IsDone()) End();
  }

 private:
  struct Pour {
    int left = 0;
    std::string reply;
  };

  bool ReadSome() {
    char octets[16384];
    const ssize_t size = ::recv(fd_.get(), octets, sizeof octets, MSG_DONTWAIT);
    if (size > 0) input_.append(octets, static_cast<size_t>(size));
    return size > 0 || (size < 0 && errno == EAGAIN);
  }
  bool WriteSome() {
    if (output_.empty()) return true;
    const ssize_t size = ::send(fd_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size > 0) output_.erase(0, static_cast<size_t>(size));
    return size > 0 || errno == EAGAIN;
  }
  void End() {
    rpc_.Disconnected();
    HandleEvents();
    over_ = true;
  }

  void HandleEvents() {
    while (auto event = rpc_.NextEvent()) std::visit([this](const auto& told) { Handle(told); }, *event);
  }
  void Handle(const CallBegan& call) {
    const absl::string_view method = absl::string_view(call.path).substr(sizeof "/interop.Echo/" - 1);
    if (method == "Say") return Answer(call.call, call.request);
    if (method == "Lost") return Answer(call.call, absl::StrCat(lost_calls));
    if (method == "Metadata") return Answer(call.call, Metadata(call.headers));
    if (method == "Chat") return rpc_.Read(call.call);
    if (method == "Fail") {
      return rpc_.Finish(
          call.call,
          {.code = absl::StatusCode::kAborted, .message = "\u00fcber 100 % \u2713", .details = call.request});
    }
    if (method != "Pour") return;  // Wait.
    const std::pair<absl::string_view, absl::string_view> asked = absl::StrSplit(call.request, absl::MaxSplits(' ', 1));
    pours_[call.call] = {.left = std::atoi(std::string(asked.first).c_str()),
                         .reply = std::string(std::strtoul(std::string(asked.second).c_str(), nullptr, 10), 'p')};
    PourOne(call.call);
  }
  void Handle(const RequestArrived& arrived) {
    if (!arrived.request) return rpc_.Finish(arrived.call, {});
    if (*arrived.request == "stop") {
      return rpc_.Finish(arrived.call, {.code = absl::StatusCode::kFailedPrecondition, .message = "stopped"});
    }
    rpc_.Send(arrived.call, *arrived.request);
  }
  void Handle(const RepliesSent& sent) { pours_.contains(sent.call) ? PourOne(sent.call) : rpc_.Read(sent.call); }
  void Handle(const CallLost& lost) {
    pours_.erase(lost.call);
    ++lost_calls;
  }

  void PourOne(CallId call) {
    Pour& pour = pours_[call];
    if (pour.left-- > 0) return rpc_.Send(call, pour.reply);
    pours_.erase(call);
    rpc_.Finish(call, {});
  }
  void Answer(CallId call, std::string_view reply) {
    rpc_.Send(call, reply);
    rpc_.Finish(call, {});
  }
  static std::string Metadata(const Headers& headers) {
    std::string binary;
    absl::Base64Unescape(std::string(Find(headers, "key-bin").value_or("")), &binary);
    return std::string(Find(headers, "key").value_or("")) + "," + binary;
  }

  UniqueFd fd_;
  std::string input_;
  std::string output_;
  ServerConnection rpc_;
  std::map<CallId, Pour> pours_;
  bool over_ = false;
};

UniqueFd ListenOn(const char* path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  ::unlink(path);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(fd.get(), 4096) != 0) {
    std::perror(path);
    std::exit(1);
  }
  return fd;
}

int Milliseconds(const std::list<Peer>& peers) {
  absl::Duration least = absl::Seconds(1);
  for (const Peer& peer : peers) {
    if (peer.HasUnread()) return 0;
    if (const auto next = peer.NextDeadline()) least = std::min(least, *next - absl::Now());
  }
  return static_cast<int>(std::max(absl::ToInt64Milliseconds(absl::Ceil(least, absl::Milliseconds(1))), int64_t{0}));
}

void Serve(const char* path) {
  UniqueFd listener = ListenOn(path);
  FrameBudget budget({}, absl::Now());
  std::list<Peer> peers;
  std::puts("ready");
  std::fflush(stdout);
  while (listener || !peers.empty()) {
    std::vector<pollfd> polled = {{.fd = listener.get(), .events = POLLIN, .revents = 0}};
    for (const Peer& peer : peers) polled.push_back({.fd = peer.fd(), .events = peer.Awaits(), .revents = 0});
    ::poll(polled.data(), polled.size(), Milliseconds(peers));
    if (terminated != 0 && listener) {
      listener.Reset();
      for (Peer& peer : peers) peer.Drain();
    }
    auto ready = polled.begin() + 1;
    for (Peer& peer : peers) peer.Turn((ready++)->revents);
    peers.remove_if([](const Peer& peer) { return peer.IsOver(); });
    while (listener) {
      UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) break;
      peers.emplace_back(std::move(fd), budget);
    }
  }
}

}  // namespace
}  // namespace rdmabroker::rpc

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("Usage: echo_server SOCKET\n", stderr);
    return 2;
  }
  std::signal(SIGTERM, [](int) { rdmabroker::rpc::terminated = 1; });
  rdmabroker::rpc::Serve(argv[1]);
}
