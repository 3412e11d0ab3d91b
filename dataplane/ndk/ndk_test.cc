// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

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
