// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/neighbour.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "tests/integration/interface.h"

namespace rdmabroker {
namespace {

constexpr char kItsInterface[] = "far";

UniqueFd CurrentNetwork() {
  UniqueFd network(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(network) << "/proc/thread-self/ns/net: " << std::strerror(errno);
  return network;
}

void Enter(const UniqueFd& network) {
  EXPECT_EQ(::setns(network.get(), CLONE_NEWNET), 0) << "cannot enter a network namespace: " << std::strerror(errno);
}

}  // namespace

Neighbour::Neighbour() : here_(CurrentNetwork()) {
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0) << "needs the right to make network namespaces: " << std::strerror(errno);
  there_ = CurrentNetwork();
  Enter(here_);
  EXPECT_TRUE(MakeVethPair(kInterface, kItsInterface, there_.get()))
      << "cannot make a pair of veth devices (the kernel's module veth): " << std::strerror(errno);
  const auto raise = [](const char* name, const char* address) {
    EXPECT_TRUE(SetAddress(name, address) && RaiseInterface(name)) << name << ": " << std::strerror(errno);
  };
  raise(kInterface, kAddress);
  Run([&raise] {
    EXPECT_TRUE(RaiseInterface("lo")) << std::strerror(errno);
    raise(kItsInterface, kItsAddress);
  });
}

void Neighbour::Lose(bool all) {
  const auto change = all ? MisdirectNeighbour : AskForNeighbour;
  EXPECT_TRUE(change(kInterface, kItsAddress)) << std::strerror(errno);
  Run([change] { EXPECT_TRUE(change(kItsInterface, kAddress)) << std::strerror(errno); });
}

void Neighbour::PullPlug(bool pulled) {
  const auto change = pulled ? LowerInterface : RaiseInterface;
  Run([change] { EXPECT_TRUE(change(kItsInterface)) << std::strerror(errno); });
}

void Neighbour::Run(const std::function<void()>& work) {
  Enter(there_);
  work();
  Enter(here_);
}

}  // namespace rdmabroker
