// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

TEST(Status, EveryNameLeadsBackToItsNumber) {
  for (const uint32_t number : {0x00000000u, 0xC0000043u, 0xC0000236u, 0xC0010004u, 0x80000005u}) {
    const auto status = StatusFromNumber(number);
    ASSERT_TRUE(status) << std::hex << number;
    EXPECT_EQ(StatusFromName(StatusName(*status)), status);
  }
  EXPECT_FALSE(StatusFromNumber(0x12345678));
  EXPECT_FALSE(StatusFromName("STATUS_FINE"));
}

TEST(Status, AWarningIsNotASuccess) {
  EXPECT_TRUE(IsSuccess(NdkStatus::kPending));
  EXPECT_FALSE(IsSuccess(NdkStatus::kBufferOverflow));
  EXPECT_FALSE(IsSuccess(NdkStatus::kCancelled));
}

TEST(SocketAddress, TextLeadsBackToTheSameAddress) {
  for (const char* text : {"127.0.0.1:1", "[::1]:65535", "[fe80::1%3]:80", "0.0.0.0:0"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(SocketAddress, WhatIsNoAddressIsRefused) {
  for (const char* text :
       {"", "1.2.3.4", "1.2.3.4:65536", "::1:80", "[1.2.3.4]:80", "[::1]", "[::1%]:1", "host:80", "1.2.3.4:-1"}) {
    EXPECT_FALSE(SocketAddress::Parse(text)) << text;
  }
}

TEST(IpAddress, AnInterfaceIsGivenByItsIndexOrItsName) {
  const std::string too_long(200, 'x');
  // Loopback is the first interface of every network namespace.
  const struct {
    std::string text;
    std::string shown;    // Nothing: it is refused, ...
    std::string problem;  // ... and the reason has this.
  } rows[] = {
      {"fe80::1%lo", "fe80::1%1", ""},
      {"fe80::1%1", "fe80::1%1", ""},
      {"fe80::1%4294967295", "fe80::1%4294967295", ""},
      {"fe80::1%0", "fe80::1", ""},
      {"fe80::1%nobodys0", "", "no interface \"nobodys0\""},
      {"fe80::1%4294967296", "", "no interface \"4294967296\""},
      {"fe80::1%-1", "", "no interface \"-1\""},
      {"fe80::1%", "", "no interface \"\""},
      {"fe80::1%" + too_long, "", too_long},
      {std::string("fe80::1%lo\0x", 12), "", "no interface"},
      {"fe80::x%lo", "", "not an IP address"},
      {"127.0.0.1%lo", "", "not an IP address"},
      {std::string("127.0.0.1\0x", 11), "", "not an IP address"},
      {std::string("fe80::1\0x%lo", 12), "", "not an IP address"},
      {"lo", "", "not an IP address"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    std::string problem;
    const auto ip = IpAddress::Parse(row.text, &problem);
    EXPECT_EQ(ip ? ip->ToString() : "", row.shown);
    EXPECT_NE(problem.find(row.problem), std::string::npos) << problem;
    const std::string endpoint = row.text.find(':') == std::string::npos ? row.text + ":80" : "[" + row.text + "]:80";
    EXPECT_EQ(SocketAddress::Parse(endpoint, &problem), ip ? std::optional(SocketAddress{*ip, 80}) : std::nullopt);
    EXPECT_NE(problem.find(row.problem), std::string::npos) << problem;
  }
}

TEST(IpAddress, AnInterfaceIsShownByTheNameThatItHas) {
  EXPECT_EQ(InterfaceName(1), "lo");
  EXPECT_EQ(InterfaceName(0), "");
  EXPECT_EQ(InterfaceName(UINT32_MAX), "");
  const SocketAddress address = *SocketAddress::Parse("[fe80::1%lo]:80");
  EXPECT_EQ(address.ToString(InterfaceName(address.ip.scope_id)), "[fe80::1%lo]:80");
  EXPECT_EQ(address.ToString(""), "[fe80::1%1]:80");
  EXPECT_EQ(SocketAddress::Parse("[2001:db8::1]:80")->ToString("lo"), "[2001:db8::1]:80");
}

TEST(IpAddress, KindsAreToldApart) {
  EXPECT_TRUE(IpAddress::Parse("::")->IsAny());
  EXPECT_TRUE(IpAddress::Parse("fe80::1%3")->IsLinkLocal());
  EXPECT_TRUE(IpAddress::Parse("febf::1")->IsLinkLocal());
  EXPECT_FALSE(IpAddress::Parse("fec0::1")->IsLinkLocal());
  EXPECT_FALSE(IpAddress::Parse("254.128.0.1")->IsLinkLocal());
  EXPECT_TRUE(IpAddress::Parse("127.9.9.9")->IsLoopback());
  EXPECT_TRUE(IpAddress::Parse("::1")->IsLoopback());
  EXPECT_TRUE(IpAddress::Parse("224.0.0.1")->IsMulticast());
  EXPECT_FALSE(IpAddress::Parse("10.0.0.1")->IsLoopback());
}

}  // namespace
}  // namespace rdmabroker
