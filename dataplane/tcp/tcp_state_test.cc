// SPDX-License-Identifier: Apache-2.0

#include "dataplane/tcp/tcp_state.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/side.h"
#include "dataplane/testing/tcp_pair.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::tcp {
namespace {

using std::chrono::milliseconds;

SocketAddress AddressOf(const UniqueFd& socket, decltype(::getsockname) get) {
  KernelAddress kernel;
  EXPECT_EQ(get(socket.get(), kernel.get(), &kernel.length), 0);
  return FromKernel(kernel);
}

std::optional<TcpState> Find(const UniqueFd& socket) {
  TcpState state;
  const int error = FindTcpState(AddressOf(socket, ::getsockname), AddressOf(socket, ::getpeername), &state);
  return error == 0 ? std::optional(state) : std::nullopt;
}

struct Way {
  std::string name;
  int family;
  std::function<std::optional<TcpState>(const UniqueFd&)> look;
};

class TcpStateTest : public testing::TestWithParam<Way> {
 protected:
  TcpState Look(const UniqueFd& socket) const {
    const std::optional<TcpState> state = GetParam().look(socket);
    EXPECT_TRUE(state) << "no such connection";
    return state.value_or(TcpState());
  }
};

TEST_P(TcpStateTest, TellsOfItsOwnSide) {
  const TcpPair pair = ConnectTcpPair(GetParam().family);
  const TcpState state = Look(pair.active);
  EXPECT_FALSE(state.closed || state.unacknowledged || state.unsent);
  EXPECT_TRUE(Eventually([&] { return Look(pair.active).silence >= milliseconds(50); }));

  const std::array<char, 65536> bytes = {};
  while (::send(pair.active.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_TRUE(Eventually([&] { return Look(pair.active).unsent; }));
  EXPECT_TRUE(Eventually([&] { return !Look(pair.active).unacknowledged; })) << "the peer's TCP has it";
  EXPECT_FALSE(Look(pair.passive).unsent);

  ::shutdown(pair.passive.get(), SHUT_WR);
  EXPECT_FALSE(Look(pair.active).closed);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, TcpStateTest,
    testing::Values(Way{"ByItsSocket", AF_INET, [](const UniqueFd& socket) { return ReadTcpState(socket.get()); }},
                    Way{"ByItsIpv4Addresses", AF_INET, Find}, Way{"ByItsIpv6Addresses", AF_INET6, Find}),
    [](const auto& way) { return way.param.name; });

TEST(TcpState, IsClosedWhereTheSocketStillIs) {
  const TcpPair pair = ConnectTcpPair();
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(pair.active.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};
  EXPECT_EQ(::connect(pair.active.get(), &nobody, sizeof nobody), 0);
  EXPECT_TRUE(Eventually([&] { return ReadTcpState(pair.passive.get())->closed; }));
}

TEST(TcpState, OfNoConnectionIsNothing) {
  EXPECT_FALSE(ReadTcpState(-1));
  TcpPair pair = ConnectTcpPair();
  const SocketAddress local = AddressOf(pair.active, ::getsockname), peer = AddressOf(pair.active, ::getpeername);
  TcpState state;
  EXPECT_EQ(FindTcpState(local, {peer.ip, 1}, &state), ENOENT);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(FindTcpState({local.ip, AddressOf(listener, ::getsockname).port}, peer, &state), ENOENT)
      << "one that listens";
  EXPECT_EQ(FindTcpState({}, {}, &state), ENOENT) << "addresses that nobody knows";
}

TEST(TcpState, ThatCannotBeAskedForNowIsNotTakenForNoConnections) {
  const TcpPair pair = ConnectTcpPair();
  const SocketAddress local = AddressOf(pair.active, ::getsockname), peer = AddressOf(pair.active, ::getpeername);
  TcpState state;
  {
    const DescriptorShortage shortage;
    EXPECT_EQ(FindTcpState(local, peer, &state), EMFILE);
  }
  EXPECT_EQ(FindTcpState(local, peer, &state), 0);
}

}  // namespace
}  // namespace rdmabroker::tcp
