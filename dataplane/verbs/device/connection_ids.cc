// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/connection_ids.h"

#include <rdma/rdma_netlink.h>

#include <cerrno>

#include "dataplane/verbs/device/rdma_message.h"
#include "dataplane/verbs/device/rdma_netlink.h"

namespace rdmabroker::verbs {

std::optional<std::vector<ConnectionId>> FindConnectionIds(uint32_t device_index) {
  std::vector<ConnectionId> found;
  const int error =
      AskRdmaNetlink(RDMA_NLDEV_CMD_RES_CM_ID_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index}}, true,
                     [&found](const void* first, int length) { ParseConnectionIds(first, length, &found); });
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
