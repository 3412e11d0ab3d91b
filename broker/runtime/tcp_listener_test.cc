// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/tcp_listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace rdmabroker {
namespace {

TEST(ListenOnTcp, MayBeAnyAddressOfThisMachine) {
  for (const char* text : {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"}) {
    const auto listener = ListenOnTcp("key", text, 1);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const SocketAddress address = AddressOf(*listener);
    EXPECT_EQ(address.ip, SocketAddress::Parse(text)->ip);
    EXPECT_NE(address.port, 0);
  }
}

TEST(ListenOnTcp, EveryAddressIsIpv4sToo) {
  const auto listener = ListenOnTcp("key", "[::]:0", 1);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(AddressOf(*listener).port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
}

TEST(ListenOnTcp, AnAddressThatCannotBeHadIsRefusedWithWhatToDo) {
  const auto used = ListenOnTcp("key", "127.0.0.1:0", 1);
  ASSERT_TRUE(used.ok()) << used.status();
  const std::string in_use = AddressOf(*used).ToString();
  const struct {
    std::string address;
    absl::Status refusal;
  } rows[] = {
      {in_use, absl::AlreadyExistsError("key: " + in_use +
                                        ": cannot be listened on: Address already in use; name another port, or end "
                                        "who has this one (ss -ltnp)")},
      {"192.0.2.1:0", absl::UnavailableError("key: 192.0.2.1:0: cannot be listened on: Cannot assign requested "
                                             "address; name an address of this machine")},
      {"localhost:0", absl::InvalidArgumentError("key: localhost:0: not an IP address")},
  };
  for (const auto& [address, refusal] : rows) EXPECT_EQ(ListenOnTcp("key", address, 1).status(), refusal);
}

}  // namespace
}  // namespace rdmabroker
