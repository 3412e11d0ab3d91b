// SPDX-License-Identifier: Apache-2.0

// The statuses of the wire and those of C++ are the same, name by name and number by number.

#include <gtest/gtest.h>

#include <cstdint>

#include "dataplane/ndk/status.h"
#include "proto/rdmabroker/v1/ndk_status.pb.h"

namespace rdmabroker {
namespace {

TEST(NdkStatus, EveryStatusOfTheWireIsTheSameInCpp) {
  const auto& wire = *v1::NdkStatus_descriptor();
  ASSERT_GT(wire.value_count(), 0);
  for (int i = 0; i < wire.value_count(); ++i) {
    const auto& value = *wire.value(i);
    const auto status = StatusFromNumber(static_cast<uint32_t>(value.number()));
    ASSERT_TRUE(status) << value.name();
    EXPECT_EQ(StatusName(*status), value.name());
  }
}

// An NTSTATUS is two bits of severity, a customer bit and a reserved one, 12 of facility and 16 of code (ntstatus.h).
// Those of NDKPI have facilities below 16 and no customer bit.
TEST(NdkStatus, EveryStatusOfCppIsTheSameOnTheWire) {
  int found = 0;
  for (uint32_t severity = 0; severity < 4; ++severity) {
    for (uint32_t facility_and_code = 0; facility_and_code < 16u << 16; ++facility_and_code) {
      const auto status = StatusFromNumber(severity << 30 | facility_and_code);
      if (!status) continue;
      ++found;
      const auto* value = v1::NdkStatus_descriptor()->FindValueByNumber(static_cast<int32_t>(*status));
      ASSERT_NE(value, nullptr) << StatusName(*status);
      EXPECT_EQ(value->name(), StatusName(*status));
    }
  }
  EXPECT_EQ(found, v1::NdkStatus_descriptor()->value_count());
}

// The comments carry the usual form of the numbers; the walk above cannot see a slip in both at once.
TEST(NdkStatus, NumbersAreThePublishedOnes) {
  EXPECT_EQ(static_cast<uint32_t>(v1::STATUS_SHARING_VIOLATION), 0xC0000043u);
  EXPECT_EQ(static_cast<uint32_t>(v1::STATUS_BUFFER_OVERFLOW), 0x80000005u);
  EXPECT_EQ(static_cast<uint32_t>(v1::NDIS_STATUS_BAD_VERSION), 0xC0010004u);
}

}  // namespace
}  // namespace rdmabroker
