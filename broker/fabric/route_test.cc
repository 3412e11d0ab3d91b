// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/route.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "dataplane/testing/descriptor_shortage.h"
#include "tests/integration/interface.h"

namespace rdmabroker {
namespace {

// A network namespace of the test's own, with one link whose far end is there, too.
class RouteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const bool entered = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!entered) GTEST_SKIP() << "no network namespace can be made here: " << std::strerror(errno);
    ASSERT_TRUE(MakeVethPair("left0", "right0", -1)) << std::strerror(errno);
    for (const char* name : {"lo", "left0", "right0"}) ASSERT_TRUE(RaiseInterface(name)) << std::strerror(errno);
    ASSERT_TRUE(SetAddress("left0", "192.0.2.1")) << std::strerror(errno);
    ASSERT_TRUE(AddIpv6Address("left0", "2001:db8::1")) << std::strerror(errno);
    ASSERT_TRUE(AddIpv6Address("left0", "fe80::1")) << std::strerror(errno);
  }
};

TEST_F(RouteTest, LeavesFromTheAddressThatTheKernelChooses) {
  const struct {
    const char* destination;
    const char* source;  // Empty: there is none.
    NdkStatus status = NdkStatus::kSuccess;
  } rows[] = {
      {"192.0.2.9:80", "192.0.2.1"},
      {"192.0.2.1:80", "192.0.2.1"},
      {"127.0.0.1:80", "127.0.0.1"},
      {"[2001:db8::9]:80", "2001:db8::1"},
      {"[::1]:80", "::1"},
      {"198.51.100.1:80", "", NdkStatus::kNetworkUnreachable},
      {"192.0.2.255:80", "", NdkStatus::kAccessDenied},
      {"[fe80::9]:80", "", NdkStatus::kNetworkUnreachable},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.destination);
    const Route route = KernelRouteTo(*SocketAddress::Parse(row.destination));
    EXPECT_EQ(StatusName(route.status), StatusName(row.status));
    EXPECT_EQ(route.status == NdkStatus::kSuccess ? route.source.ToString() : "", row.source);
  }
}

TEST_F(RouteTest, OfALinkIsOnThatLink) {
  const Route route = KernelRouteTo(*SocketAddress::Parse("[fe80::9%left0]:80"));
  EXPECT_EQ(StatusName(route.status), "STATUS_SUCCESS");
  EXPECT_TRUE(route.source.IsLinkLocal());
  EXPECT_EQ(InterfaceName(route.source.scope_id), "left0");
}

TEST_F(RouteTest, IsNotAskedForWhileDescriptorsHaveRunOut) {
  const SocketAddress destination = *SocketAddress::Parse("127.0.0.1:80");
  const DescriptorShortage shortage;
  EXPECT_EQ(KernelRouteTo(destination).status, NdkStatus::kInsufficientResources);
}

}  // namespace
}  // namespace rdmabroker
