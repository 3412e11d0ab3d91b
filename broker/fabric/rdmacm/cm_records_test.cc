// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_records.h"

#include <gtest/gtest.h>

#include <string>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

CmConnectionRecord FullConnection() {
  return {.device_index = 3,
          .kernel_id = KernelId{0},
          .session = SessionId(4),
          .uid = 5,
          .peer = "10.77.0.2",
          .accepted = true,
          .tried_again = true,
          .answer_due = true,
          .qp = {6},
          .process = 7,
          .limits = {8, 9},
          .options = {.rnr_retry_count = 2},
          .private_data = Bytes(255, 10),
          .device = DeviceId(11)};
}

TEST(CmRecords, AnEndpointIsReadAsItWasWritten) {
  const CmEndpointRecord record = {.device_index = 2,
                                   .anchors = {{*IpAddress::Parse("10.77.0.1"), {KernelId{0}, true}},
                                               {*IpAddress::Parse("fe80::1%3"), {KernelId{70000}, false}}},
                                   .device = DeviceId(3)};
  EXPECT_EQ(DecodeEndpoint(Encode(record)), record);
  EXPECT_EQ(DecodeEndpoint(Encode(CmEndpointRecord{})), CmEndpointRecord{});
}

TEST(CmRecords, AConnectionIsReadAsItWasWritten) {
  EXPECT_EQ(DecodeConnection(Encode(FullConnection())), FullConnection());
  EXPECT_EQ(DecodeConnection(Encode(CmConnectionRecord{})), CmConnectionRecord{});
}

TEST(CmRecords, AConnectionWithoutAnIdIsNotTheFirstIds) {
  CmConnectionRecord record = FullConnection();
  record.kernel_id.reset();
  EXPECT_EQ(DecodeConnection(Encode(record)), record);
}

// Field 16, a number: of a newer broker, or one that there was.
const std::string kUnknownField("\x80\x01\x01", 3);

// As the format's first version wrote them: a record's bytes are what a newer broker finds.
TEST(CmRecords, OfTheFirstVersionAreReadAndWhatANewerOneAddsIsIgnored) {
  const std::string endpoint(
      "\x08\x02\x12\x11\x0a\x09"
      "10.77.0.1"
      "\x10\xf0\xa2\x04\x18\x01",
      21);
  const CmEndpointRecord its = {.device_index = 2,
                                .anchors = {{*IpAddress::Parse("10.77.0.1"), {KernelId{70000}, true}}}};
  EXPECT_EQ(DecodeEndpoint(endpoint), its);
  EXPECT_EQ(DecodeEndpoint(endpoint + kUnknownField), its);
  const std::string connection = std::string(
                                     "\x08\x03\x10\x00\x18\x04\x20\x05\x2a\x09"
                                     "10.77.0.2"
                                     "\x30\x01\x38\x01\x40\x06\x48\x07\x50\x08\x58\x09\x62\xff\x01",
                                     34) +
                                 std::string(255, '\x0a');
  CmConnectionRecord first = FullConnection();
  first.answer_due = false;
  first.options = {};
  first.device = {};
  EXPECT_EQ(DecodeConnection(connection), first);
  EXPECT_EQ(DecodeConnection(connection + kUnknownField), first);
}

TEST(CmRecords, TellTheIndexOfEachDeviceThatTheyName) {
  FabricRecords records;
  EXPECT_TRUE(RecordedIndices(records).empty());
  records.endpoints[EndpointId(1)] = Encode(CmEndpointRecord{.device_index = 4, .anchors = {}, .device = DeviceId(2)});
  records.endpoints[EndpointId(2)] = Encode(CmEndpointRecord{.device_index = 5, .anchors = {}, .device = {}});
  records.endpoints[EndpointId(3)] = "\xff";
  records.connections[ConnectionId(1)] = Encode(FullConnection());
  EXPECT_EQ(RecordedIndices(records), (std::map<DeviceId, uint32_t>{{DeviceId(2), 4}, {DeviceId(11), 3}}));
}

TEST(CmRecords, WhatCannotBeReadIsNotThere) {
  EXPECT_EQ(DecodeEndpoint("\xff"), std::nullopt);
  EXPECT_EQ(DecodeConnection("\xff"), std::nullopt);
  const std::string whole = Encode(FullConnection());
  EXPECT_EQ(DecodeConnection(whole.substr(0, whole.size() - 1)), std::nullopt);
}

TEST(CmRecords, WithAnAddressThatIsNoneAreNotThere) {
  const std::string good = Encode(CmEndpointRecord{2, {{*IpAddress::Parse("10.77.0.1"), {}}}});
  std::string bad = good;
  bad[good.find("10.77.0.1")] = 'x';
  EXPECT_NE(DecodeEndpoint(good), std::nullopt);
  EXPECT_EQ(DecodeEndpoint(bad), std::nullopt);
}

// They would be cut off, or written beyond the end of what the kernel is given.
TEST(CmRecords, WithMoreThanTheKernelTakesAreNotThere) {
  CmConnectionRecord record = FullConnection();
  record.private_data.push_back(0);
  EXPECT_EQ(DecodeConnection(Encode(record)), std::nullopt);
  for (const ReadLimits limits : {ReadLimits{256, 0}, ReadLimits{0, 256}}) {
    record = FullConnection();
    record.limits = limits;
    EXPECT_EQ(DecodeConnection(Encode(record)), std::nullopt);
  }
  record = FullConnection();
  record.options.rnr_retry_count = 8;
  EXPECT_EQ(DecodeConnection(Encode(record)), std::nullopt);
}

}  // namespace
}  // namespace rdmabroker
