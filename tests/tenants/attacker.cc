// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/attacker.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::tenants {

Attacker::Attacker(Places places) : places_(std::move(places)) {
  input_ = std::thread([this] {
    char octets[64];
    while (::read(STDIN_FILENO, octets, sizeof octets) > 0) {
    }
    goes_on_ = false;
  });
}

void Attacker::SetsOn() {
  if (!set_on_.exchange(true)) std::cout << "the attack is under way" << std::endl;
}

void Attacker::Count(const std::string& what, uint64_t times) {
  const std::lock_guard lock(mutex_);
  counts_[what] += times;
}

bool Attacker::MayCall(double a_second, double calls) {
  constexpr double kBurst = 1000;
  const absl::Time now = absl::Now();
  calls_left_ = std::min(kBurst, calls_left_ + a_second * absl::ToDoubleSeconds(now - called_));
  called_ = now;
  if (calls_left_ < calls) return false;
  calls_left_ -= calls;
  return true;
}

void Attacker::PrintCounts() {
  const std::lock_guard lock(mutex_);
  for (const auto& [what, times] : counts_) std::cout << what << ": " << times << "\n";
  std::cout << std::flush;
}

UniqueFd Attacker::ConnectToUnix(const std::string& path, int type) const {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  return fd;
}

UniqueFd Attacker::ConnectToTcp(const std::string& address, int host) const {
  SocketAddress from = {*IpAddress::Parse(places_.host), 0};
  from.ip.bytes[3] = static_cast<uint8_t>(from.ip.bytes[3] + host);
  KernelAddress source = ToKernel(from);
  KernelAddress destination = ToKernel(*SocketAddress::Parse(address));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::bind(fd.get(), source.get(), source.length) != 0) return UniqueFd();
  if (::connect(fd.get(), destination.get(), destination.length) != 0 && errno != EINPROGRESS) return UniqueFd();
  return fd;
}

}  // namespace rdmabroker::tenants
