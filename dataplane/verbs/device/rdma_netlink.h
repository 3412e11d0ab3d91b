// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_
#define DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_

#include <cstdint>
#include <functional>
#include <vector>

// What the kernel tells everybody of its RDMA resources (include/uapi/rdma/rdma_netlink.h).
namespace rdmabroker::verbs {

// The first port of a device, on which nearly all is: a question about one thing must name its port.
inline constexpr uint32_t kFirstPort = 1;

struct NetlinkNumber {
  uint16_t attribute = 0;
  uint32_t value = 0;
};

// AskNetlink's question `command`, an RDMA_NLDEV_CMD_*; each message of the answer carries attributes. `all`: it is one
// for a list. From any thread.
int AskRdmaNetlink(uint16_t command, const std::vector<NetlinkNumber>& of, bool all,
                   const std::function<void(const void* first, int length)>& on_message);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_
