// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/bench/figures.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

// Round robin, so that a thread that polls leaves time to its process's other threads.
void RunAboveOthers() {
  sched_param parameters = {};
  parameters.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_RR, &parameters) != 0) ::setpriority(PRIO_PROCESS, 0, -20);
}

constexpr int kPatienceMs = 60'000;  // Far more than any run takes.

// The `index`-th core that this process may use; the last one where there are fewer.
int Core(int index) {
  cpu_set_t allowed;
  Require(::sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
  int found = 0;
  for (int core = 0; core < CPU_SETSIZE && index >= 0; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    found = core;
    --index;
  }
  return found;
}

// In a new process: where and how it runs. Dies with its parent.
void Settle(int core) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  Require(::sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
  RunAboveOthers();
}

struct Child {
  pid_t pid = -1;
  UniqueFd output;  // What it writes to the pipe.
};

// `body` gets the pipe's end to write to and does not return but to end the process.
Child Fork(int index, const std::function<void(int)>& body) {
  int ends[2] = {-1, -1};
  Require(::pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  const int core = Core(index);
  std::fflush(stdout);
  Child child;
  child.pid = ::fork();
  Require(child.pid >= 0, "fork");
  if (child.pid == 0) {
    ::close(ends[0]);
    Settle(core);
    body(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  child.output.Reset(ends[0]);
  return child;
}

// All that it writes until its end.
std::string Drain(const Child& child, const std::string& name) {
  std::string text;
  std::array<char, 4096> bytes;
  while (true) {
    pollfd ready = {child.output.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) {
      ::kill(child.pid, SIGKILL);
      std::fprintf(stderr, "%s: no end after %d ms\n", name.c_str(), kPatienceMs);
      std::exit(1);
    }
    const ssize_t got = ::read(child.output.get(), bytes.data(), bytes.size());
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<size_t>(got));
  }
}

bool Succeeded(const Child& child) {
  int status = 0;
  return ::waitpid(child.pid, &status, 0) == child.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::pair<UniqueFd, UniqueFd> ConnectedPair() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Require(::bind(listener.get(), generic, length) == 0 && ::listen(listener.get(), 1) == 0, "listen");
  Require(::getsockname(listener.get(), generic, &length) == 0, "getsockname");
  UniqueFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Require(::connect(one.get(), generic, length) == 0, "connect");
  UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  Require(static_cast<bool>(other), "accept");
  const int on = 1;
  for (const UniqueFd* socket : {&one, &other}) {
    ::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return {std::move(one), std::move(other)};
}

// A port that was free a moment ago; programs that take none but a number leave no better way.
uint16_t FreePort() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Require(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
              ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "bind");
  return ntohs(address.sin_port);
}

// Asked of the kernel, since a connection to find out would be the one that the server serves.
bool Listens(uint16_t port) {
  constexpr unsigned kListen = 0x0A;  // TCP_LISTEN of include/net/tcp_states.h.
  for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state;
      fields >> slot >> local >> remote >> state;
      const std::string in_hex = local.substr(local.find(':') + 1);
      if (std::stoul(in_hex, nullptr, 16) == port && std::stoul(state, nullptr, 16) == kListen) return true;
    }
  }
  return false;
}

Child Start(int core, const std::vector<std::string>& command) {
  return Fork(core, [&](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "%s: %s; install it with deploy/install-packages bench\n", arguments[0], std::strerror(errno));
    ::_exit(127);
  });
}

void Keep(const std::string& name, const std::string& text) {
  const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (folder == nullptr) {
    std::printf("-- %s\n%s", name.c_str(), text.c_str());
    return;
  }
  std::ofstream(std::string(folder) + "/" + name + ".txt", std::ios::app) << text;
}

}  // namespace

void RunAsBenchmark(const std::function<void()>& measure) {
  RunAboveOthers();
  PrintCircumstances();
  measure();
}

double RunPair(const std::function<void(UniqueFd)>& target, const std::function<double(UniqueFd)>& source) {
  auto sockets = ConnectedPair();
  const Child target_child = Fork(0, [&](int) {
    sockets.second.Reset();
    target(std::move(sockets.first));
  });
  const Child source_child = Fork(1, [&](int output) {
    sockets.first.Reset();
    const double figure = source(std::move(sockets.second));
    Require(::write(output, &figure, sizeof figure) == sizeof figure, "write");
  });
  sockets.first.Reset();
  sockets.second.Reset();
  const std::string bytes = Drain(source_child, "the source");
  Drain(target_child, "the target");
  double figure = 0;
  const bool source_fine = Succeeded(source_child), target_fine = Succeeded(target_child);
  Require(source_fine && target_fine && bytes.size() == sizeof figure, "one of two processes failed");
  std::memcpy(&figure, bytes.data(), sizeof figure);
  return figure;
}

std::string RunPeer(const std::string& name, const PeerCommand& server, const PeerCommand& client) {
  const uint16_t port = FreePort();
  const Child server_child = Start(0, server(std::to_string(port)));
  for (int waited_ms = 0; !Listens(port); waited_ms += 10) {
    const bool ended = ::waitpid(server_child.pid, nullptr, WNOHANG) != 0;
    if (ended || waited_ms >= kPatienceMs) {
      if (!ended) ::kill(server_child.pid, SIGKILL);
      std::fprintf(stderr, "%s: the server does not listen: %s\n", name.c_str(), Drain(server_child, name).c_str());
      std::exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Child client_child = Start(1, client(std::to_string(port)));
  std::string text = Drain(client_child, name);
  const bool fine = Succeeded(client_child);
  // Some servers wait for the next client.
  ::kill(server_child.pid, SIGTERM);
  Drain(server_child, name);
  ::waitpid(server_child.pid, nullptr, 0);
  Keep(name, text);
  Require(fine, name + " failed: " + text);
  return text;
}

std::string RunProgram(const std::string& name, const std::vector<std::string>& command) {
  const Child child = Start(0, command);
  const std::string text = Drain(child, name);
  Keep(name, text);
  Require(Succeeded(child), name + " failed: " + text);
  return text;
}

}  // namespace rdmabroker::bench
