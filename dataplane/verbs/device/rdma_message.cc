// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/rdma_message.h"

#include <infiniband/verbs.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cstring>

#include "dataplane/netlink.h"

namespace rdmabroker::verbs {
namespace {

// RDMA_CM_CONNECT of enum rdma_cm_state (drivers/infiniband/core/cma_priv.h), which iproute2's rdma(8) knows by the
// same number.
constexpr uint8_t kConnect = 5;

template <typename Number>
Number Read(const rtattr* attribute) {
  Number value = 0;
  if (RTA_PAYLOAD(attribute) >= sizeof value) std::memcpy(&value, RTA_DATA(attribute), sizeof value);
  return value;
}

std::string ReadText(const rtattr* attribute) {
  const auto* const text = static_cast<const char*>(RTA_DATA(attribute));
  return {text, ::strnlen(text, RTA_PAYLOAD(attribute))};
}

void ReadAddress(const rtattr* attribute, sockaddr_storage* address) {
  std::memcpy(address, RTA_DATA(attribute), std::min(sizeof *address, RTA_PAYLOAD(attribute)));
}

// Calls `function` with what each entry of the message's tables of this kind carries, and its length.
template <typename Function>
void ForEachEntry(const void* first, int length, int table_type, int entry_type, const Function& function) {
  const auto read_entry = [&](int type, const rtattr* entry) {
    if (type == entry_type) function(RTA_DATA(entry), static_cast<int>(RTA_PAYLOAD(entry)));
  };
  ForEachAttribute(first, length, [&](int type, const rtattr* table) {
    if (type == table_type) ForEachAttribute(RTA_DATA(table), static_cast<int>(RTA_PAYLOAD(table)), read_entry);
  });
}

void ReadConnectionId(const void* first, int length, std::vector<ConnectionId>* found) {
  ConnectionId id;
  uint8_t state = 0;
  ForEachAttribute(first, length, [&](int type, const rtattr* attribute) {
    switch (type) {
      case RDMA_NLDEV_ATTR_RES_CM_IDN:
        id.number = Read<uint32_t>(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_STATE:
        state = Read<uint8_t>(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_LQPN:
        id.queue_pair = Read<uint32_t>(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_SRC_ADDR:
        return ReadAddress(attribute, &id.local);
      case RDMA_NLDEV_ATTR_RES_DST_ADDR:
        return ReadAddress(attribute, &id.peer);
      default:
        return;
    }
  });
  // A request that nobody has accepted has no queue pair.
  if (state == kConnect && id.queue_pair != 0) found->push_back(id);
}

void ReadQueuePair(const void* first, int length, uint32_t wanted, QueuePairMaker* maker) {
  uint32_t number = 0;
  uint32_t thread = 0;
  bool kernel = false;
  bool failed = false;
  ForEachAttribute(first, length, [&](int type, const rtattr* attribute) {
    switch (type) {
      case RDMA_NLDEV_ATTR_RES_LQPN:
        number = Read<uint32_t>(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_STATE:
        failed = Read<uint8_t>(attribute) == IBV_QPS_ERR;
        return;
      case RDMA_NLDEV_ATTR_RES_PID:
        thread = Read<uint32_t>(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_KERN_NAME:
        kernel = true;
        return;
      default:
        return;
    }
  });
  if (number == wanted) *maker = {0, static_cast<pid_t>(thread), kernel, failed};
}

}  // namespace

void ParseConnectionIds(const void* first, int length, std::vector<ConnectionId>* found) {
  ForEachEntry(first, length, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
               [found](const void* entry, int entry_length) { ReadConnectionId(entry, entry_length, found); });
}

void ParseQueuePairs(const void* first, int length, uint32_t number, QueuePairMaker* maker) {
  ReadQueuePair(first, length, number, maker);
  ForEachEntry(first, length, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
               [&](const void* entry, int entry_length) { ReadQueuePair(entry, entry_length, number, maker); });
}

DeviceMessage ParseDevice(const void* first, int length) {
  DeviceMessage device;
  ForEachAttribute(first, length, [&device](int type, const rtattr* attribute) {
    if (type == RDMA_NLDEV_ATTR_DEV_INDEX) device.index = Read<uint32_t>(attribute);
    if (type == RDMA_NLDEV_ATTR_DEV_NAME) device.name = ReadText(attribute);
  });
  return device;
}

}  // namespace rdmabroker::verbs
