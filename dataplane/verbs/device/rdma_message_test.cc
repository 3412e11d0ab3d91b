// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/rdma_message.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace rdmabroker::verbs {
namespace {

// What comes of the parts, as the kernel writes it.
std::string Attribute(uint16_t type, const std::string& value) {
  const uint16_t header[2] = {static_cast<uint16_t>(sizeof header + value.size()), type};
  const std::string padding((4 - value.size() % 4) % 4, '\0');
  return std::string(reinterpret_cast<const char*>(header), sizeof header) + value + padding;
}
std::string Number(uint16_t type, uint32_t number) {
  return Attribute(type, {reinterpret_cast<const char*>(&number), sizeof number});
}
std::string State(uint8_t state) {
  return Attribute(RDMA_NLDEV_ATTR_RES_STATE, std::string(1, static_cast<char>(state)));
}
std::string Nested(uint16_t type, const std::string& attributes) {
  return Attribute(static_cast<uint16_t>(type | NLA_F_NESTED), attributes);
}

const std::string kDevice = Number(RDMA_NLDEV_ATTR_DEV_INDEX, 3) + Attribute(RDMA_NLDEV_ATTR_DEV_NAME, {"rxe0", 5});

std::string QueuePairOf(uint32_t number, uint32_t thread) {
  return Number(RDMA_NLDEV_ATTR_RES_LQPN, number) + State(IBV_QPS_RTS) + Number(RDMA_NLDEV_ATTR_RES_PID, thread);
}

QueuePairMaker MakerOf(uint32_t number, const std::string& message) {
  QueuePairMaker maker;
  ParseQueuePairs(message.data(), static_cast<int>(message.size()), number, &maker);
  return maker;
}

TEST(RdmaMessage, TellsOfOneQueuePair) {
  const QueuePairMaker maker = MakerOf(17, kDevice + QueuePairOf(17, 4711));
  EXPECT_EQ(maker.error, 0);
  EXPECT_EQ(maker.thread, 4711);
  EXPECT_FALSE(maker.kernel || maker.failed);
}

TEST(RdmaMessage, TellsOfAQueuePairAmongOthers) {
  const std::string list =
      kDevice + Nested(RDMA_NLDEV_ATTR_RES_QP, Nested(RDMA_NLDEV_ATTR_RES_QP_ENTRY, QueuePairOf(16, 1)) +
                                                   Nested(RDMA_NLDEV_ATTR_RES_QP_ENTRY, QueuePairOf(17, 4711)));
  EXPECT_EQ(MakerOf(17, list).thread, 4711);
  EXPECT_EQ(MakerOf(18, list).error, ENOENT);
}

TEST(RdmaMessage, TellsOfAQueuePairOfTheKernelThatHasFailed) {
  const QueuePairMaker maker = MakerOf(1, Number(RDMA_NLDEV_ATTR_RES_LQPN, 1) + State(IBV_QPS_ERR) +
                                              Attribute(RDMA_NLDEV_ATTR_RES_KERN_NAME, {"ib_core", 8}));
  EXPECT_EQ(maker.error, 0);
  EXPECT_EQ(maker.thread, 0);
  EXPECT_TRUE(maker.kernel && maker.failed);
}

TEST(RdmaMessage, TellsOfConnectedIdsOnly) {
  constexpr uint8_t kListening = 7, kConnected = 5;  // enum rdma_cm_state
  const sockaddr_in peer = {
      .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr = {INADDR_LOOPBACK}, .sin_zero = {}};
  const std::string address =
      Attribute(RDMA_NLDEV_ATTR_RES_DST_ADDR, {reinterpret_cast<const char*>(&peer), sizeof peer});
  const auto id = [&](uint32_t number, uint32_t queue_pair, uint8_t state) {
    return Nested(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, Number(RDMA_NLDEV_ATTR_RES_CM_IDN, number) + State(state) +
                                                       Number(RDMA_NLDEV_ATTR_RES_LQPN, queue_pair) + address);
  };
  const std::string list =
      kDevice + Nested(RDMA_NLDEV_ATTR_RES_CM_ID, id(1, 0, kListening) + id(2, 17, kConnected) + id(3, 0, kConnected));
  std::vector<ConnectionId> ids;
  ParseConnectionIds(list.data(), static_cast<int>(list.size()), &ids);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.front().number, 2u);
  EXPECT_EQ(ids.front().queue_pair, 17u);
  EXPECT_EQ(std::memcmp(&ids.front().peer, &peer, sizeof peer), 0);
  EXPECT_EQ(ids.front().local.ss_family, AF_UNSPEC);
}

TEST(RdmaMessage, TellsOfADevice) {
  const DeviceMessage device = ParseDevice(kDevice.data(), static_cast<int>(kDevice.size()));
  EXPECT_EQ(device.index, 3u);
  EXPECT_EQ(device.name, "rxe0");
}

TEST(RdmaMessage, TellsNothingOfANumberThatIsTooShort) {
  const std::string half = Attribute(RDMA_NLDEV_ATTR_RES_STATE, "") + Number(RDMA_NLDEV_ATTR_RES_LQPN, 17);
  EXPECT_FALSE(MakerOf(17, half).failed);
  EXPECT_EQ(MakerOf(17, Attribute(RDMA_NLDEV_ATTR_RES_LQPN, "\x11")).error, ENOENT);
}

}  // namespace
}  // namespace rdmabroker::verbs
