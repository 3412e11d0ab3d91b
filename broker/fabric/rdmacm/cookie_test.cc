// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cookie.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "broker/core/ids.h"

namespace rdmabroker {
namespace {

struct Row {
  CookieMeaning meaning;
  uint64_t cookie;
};

// The numbers stay in the kernel while one process takes over from another, which may be of another version: they are
// written out, as they may never change. None is 0, by which the kernel discards events.
constexpr Row kRows[] = {
    {ConnectionId(1), 0x0000'0000'0000'0001},
    {ConnectionId(0x1FFF'FFFF'FFFF'FFFF), 0x1FFF'FFFF'FFFF'FFFF},
    {IncomingConnection(DeviceId(1), 1), 0x8001'0000'0000'0001},
    {IncomingConnection(DeviceId(0x2000), 2), 0xA000'0000'0000'0002},
    {IncomingConnection(DeviceId(0x4000), 3), 0xC000'0000'0000'0003},
    {IncomingConnection(DeviceId(0x7FFF), 0xFFFF'FFFF'FFFF), 0xFFFF'FFFF'FFFF'FFFF},
    {EndpointId(1), 0x4000'0000'0000'0001},
    {EndpointId(0x1FFF'FFFF'FFFF'FFFF), 0x5FFF'FFFF'FFFF'FFFF},
    {DeviceId(1), 0x2000'0000'0000'0001},
    {DeviceId(0x7FFF), 0x2000'0000'0000'7FFF},
};

uint64_t CookieFor(const CookieMeaning& meaning) {
  return std::visit([](auto id) { return CookieOf(id); }, meaning);
}

TEST(Cookie, MeansTheSameToEachProcess) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << std::hex << row.cookie);
    EXPECT_EQ(CookieFor(row.meaning), row.cookie);
    EXPECT_TRUE(MeaningOf(row.cookie) == row.meaning);
  }
}

}  // namespace
}  // namespace rdmabroker
