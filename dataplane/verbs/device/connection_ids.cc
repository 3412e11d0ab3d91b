// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/connection_ids.h"

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/netlink.h"
#include "dataplane/verbs/device/rdma_netlink.h"

namespace rdmabroker::verbs {
namespace {

// RDMA_CM_CONNECT of enum rdma_cm_state (drivers/infiniband/core/cma_priv.h), which iproute2's rdma(8) knows by the
// same number.
constexpr uint8_t kConnect = 5;

void ReadAddress(const rtattr* attribute, sockaddr_storage* address) {
  std::memcpy(address, RTA_DATA(attribute), std::min(sizeof *address, RTA_PAYLOAD(attribute)));
}

void ReadId(const rtattr* entry, std::vector<ConnectionId>* found) {
  ConnectionId id;
  uint8_t state = 0;
  ForEachWithin(entry, [&](int type, const rtattr* attribute) {
    switch (type) {
      case RDMA_NLDEV_ATTR_RES_CM_IDN:
        id.number = ReadNumber(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_STATE:
        state = *static_cast<const uint8_t*>(RTA_DATA(attribute));
        return;
      case RDMA_NLDEV_ATTR_RES_LQPN:
        id.queue_pair = ReadNumber(attribute);
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

}  // namespace

std::optional<std::vector<ConnectionId>> FindConnectionIds(uint32_t device_index) {
  std::vector<ConnectionId> found;
  const auto read_entries = [&](int type, const rtattr* attribute) {
    if (type == RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY) ReadId(attribute, &found);
  };
  const auto read_tables = [&](int type, const rtattr* table) {
    if (type == RDMA_NLDEV_ATTR_RES_CM_ID) ForEachWithin(table, read_entries);
  };
  const int error =
      AskRdmaNetlink(RDMA_NLDEV_CMD_RES_CM_ID_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index}}, true,
                     [&](const void* first, int length) { ForEachAttribute(first, length, read_tables); });
  if (error != 0) return std::nullopt;
  return found;
}

bool IsConnectionIdShown(uint32_t device_index, uint32_t number) {
  const std::vector<NetlinkNumber> of = {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index},
                                         {RDMA_NLDEV_ATTR_PORT_INDEX, kFirstPort},
                                         {RDMA_NLDEV_ATTR_RES_CM_IDN, number}};
  return AskRdmaNetlink(RDMA_NLDEV_CMD_RES_CM_ID_GET, of, false, [](const void*, int) {}) != ENOENT;
}

}  // namespace rdmabroker::verbs
