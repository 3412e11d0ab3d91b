// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/local_addresses.h"

#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dataplane/netlink.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

constexpr uint32_t kLoopbackIndex = 1;

IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

// A network namespace of the test's own, where it may do as it likes; it lasts as long as the thread.
class LocalAddressesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const bool entered = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!entered) GTEST_SKIP() << "no network namespace can be made here: " << std::strerror(errno);
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request = {};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    ASSERT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  }

  // Gives loopback an address, or takes it away.
  static void Change(uint16_t type, const IpAddress& ip) {
    struct {
      nlmsghdr header;
      ifaddrmsg body;
      char attribute[RTA_SPACE(16)];
    } request = {};
    const size_t length = ip.family == IpFamily::kIpv4 ? 4 : 16;
    request.body = {.ifa_family = static_cast<uint8_t>(length == 4 ? AF_INET : AF_INET6),
                    .ifa_prefixlen = static_cast<uint8_t>(length * 8),
                    .ifa_flags = IFA_F_NODAD,
                    .ifa_index = kLoopbackIndex};
    request.header = {.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(sizeof request.body) + RTA_SPACE(length)),
                      .nlmsg_type = type,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
    if (type == RTM_NEWADDR) request.header.nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
    auto* attribute = reinterpret_cast<rtattr*>(request.attribute);
    attribute->rta_type = IFA_LOCAL;
    attribute->rta_len = RTA_LENGTH(length);
    std::memcpy(RTA_DATA(attribute), ip.bytes.data(), length);
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    ASSERT_EQ(::send(socket.get(), &request, request.header.nlmsg_len, 0), request.header.nlmsg_len);
    char answer[1024];
    ASSERT_GT(::recv(socket.get(), answer, sizeof answer, 0), 0);
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
    ASSERT_EQ(header->nlmsg_type, NLMSG_ERROR);
    ASSERT_EQ(static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error, 0) << ip.ToString();
  }
  // The one netlink socket of this process that hears of changes, or asks.
  enum class Purpose { kChanges, kQuestions };
  static int NetlinkSocket(Purpose purpose) {
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_nl address = {};
      socklen_t length = sizeof address;
      if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
      if (address.nl_family != AF_NETLINK) continue;
      if ((address.nl_groups != 0) == (purpose == Purpose::kChanges)) return fd;
    }
    return -1;
  }
  static bool Has(const LocalAddresses& local, const IpAddress& ip) {
    return std::binary_search(local.addresses().begin(), local.addresses().end(), ip);
  }
  static bool Readable(const LocalAddresses& local) {
    pollfd waiting = {.fd = local.descriptor(), .events = POLLIN};
    return ::poll(&waiting, 1, 20'000) == 1;
  }
};

TEST_F(LocalAddressesTest, AddressesOfBothFamiliesAreFollowed) {
  const auto local = LocalAddresses::Open();
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_TRUE(Has(**local, Ip("127.0.0.1")));
  (*local)->Refresh();
  for (const char* text : {"192.0.2.1", "2001:db8::1", "fe80::5%1"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(Has(**local, Ip(text)));
    Change(RTM_NEWADDR, Ip(text));
    EXPECT_TRUE(Readable(**local));
    EXPECT_TRUE((*local)->Refresh());
    EXPECT_TRUE(Has(**local, Ip(text)));
    EXPECT_TRUE(std::is_sorted((*local)->addresses().begin(), (*local)->addresses().end()));
    EXPECT_FALSE((*local)->Refresh()) << "nothing has changed since";
    Change(RTM_DELADDR, Ip(text));
    EXPECT_TRUE(Readable(**local));
    EXPECT_TRUE((*local)->Refresh());
    EXPECT_FALSE(Has(**local, Ip(text)));
  }
}

TEST_F(LocalAddressesTest, MoreChangesThanTheKernelKeepsAreFollowedAllTheSame) {
  const auto local = LocalAddresses::Open();
  ASSERT_TRUE(local.ok()) << local.status();
  const int tiny = 1;
  ASSERT_EQ(::setsockopt(NetlinkSocket(Purpose::kChanges), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny), 0);
  IpAddress ip = Ip("192.0.2.0");
  for (uint8_t last = 1; last <= 100; ++last) {
    ip.bytes[3] = last;
    Change(RTM_NEWADDR, ip);
  }
  EXPECT_TRUE(Readable(**local));
  EXPECT_TRUE((*local)->Refresh());
  for (uint8_t last = 1; last <= 100; ++last) {
    ip.bytes[3] = last;
    EXPECT_TRUE(Has(**local, ip)) << ip.ToString();
  }
}

TEST_F(LocalAddressesTest, ChangesAreFollowedWhileDescriptorsHaveRunOut) {
  const auto local = LocalAddresses::Open();
  ASSERT_TRUE(local.ok()) << local.status();
  Change(RTM_NEWADDR, Ip("192.0.2.1"));
  const DescriptorShortage shortage;
  EXPECT_TRUE((*local)->Refresh());
  EXPECT_TRUE(Has(**local, Ip("192.0.2.1")));
}

TEST_F(LocalAddressesTest, AReadThatFailsIsTriedAgainLaterAndLoggedOnce) {
  CapturedLog log;
  const auto local = LocalAddresses::Open();
  ASSERT_TRUE(local.ok()) << local.status();
  const int asks = NetlinkSocket(Purpose::kQuestions);
  ASSERT_GE(asks, 0);
  Change(RTM_NEWADDR, Ip("192.0.2.1"));
  {
    // Its socket fails, and there is no descriptor for another.
    const UniqueFd other(::eventfd(0, EFD_CLOEXEC));
    ASSERT_EQ(::dup2(other.get(), asks), asks);
    const DescriptorShortage shortage;
    EXPECT_TRUE(Readable(**local));
    EXPECT_FALSE((*local)->Refresh());
    absl::Time before = absl::Now();
    for (absl::Duration back_off = LocalAddresses::kFirstRetry; back_off < absl::Milliseconds(300); back_off *= 2) {
      pollfd waiting = {.fd = (*local)->descriptor(), .events = POLLIN};
      EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "not at once";
      EXPECT_TRUE(Readable(**local)) << "although nothing has changed since";
      EXPECT_GE(absl::Now() - before, back_off * 0.9);
      before = absl::Now();
      EXPECT_FALSE((*local)->Refresh());
    }
    EXPECT_FALSE(Has(**local, Ip("192.0.2.1")));
  }
  EXPECT_EQ(log.LinesWith("local addresses not read").size(), 1u);
  EXPECT_TRUE(Readable(**local));
  EXPECT_TRUE((*local)->Refresh());
  EXPECT_TRUE(Has(**local, Ip("192.0.2.1")));
  pollfd waiting = {.fd = (*local)->descriptor(), .events = POLLIN};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "and not again";
}

TEST_F(LocalAddressesTest, AListThatChangesWhileItIsReadIsNone) {
  IpAddress ip = Ip("10.0.0.0");
  // More than one message of the kernel's has.
  for (int i = 1; i <= 1000; ++i) {
    ip.bytes[2] = static_cast<uint8_t>(i / 250), ip.bytes[3] = static_cast<uint8_t>(i % 250);
    Change(RTM_NEWADDR, ip);
  }
  struct {
    nlmsghdr header;
    ifaddrmsg body;
  } request = {};
  request.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
  UniqueFd netlink;
  const auto ask = [&](const std::function<void()>& at_first) {
    int messages = 0;
    return AskNetlink(NETLINK_ROUTE, {reinterpret_cast<const char*>(&request), sizeof request}, &netlink,
                      [&](const void*, int) {
                        if (messages++ == 0) at_first();
                      });
  };
  EXPECT_EQ(ask([] {}), 0);
  EXPECT_EQ(ask([] { Change(RTM_NEWADDR, Ip("192.0.2.1")); }), EINTR);
  EXPECT_EQ(ask([] {}), 0);
}

TEST_F(LocalAddressesTest, ANewNamespaceHasAnotherNumber) {
  const auto one = NetworkNamespace();
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << std::strerror(errno);
  const auto other = NetworkNamespace();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(*one, *other);
}

}  // namespace
}  // namespace rdmabroker
