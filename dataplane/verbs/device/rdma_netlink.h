// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_
#define DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_

#include <linux/rtnetlink.h>

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

// Calls `on_message` with the attributes of each message of the answer to `command`, an RDMA_NLDEV_CMD_*: their first,
// and their length. `all`: it is one for a list. 0, or an errno, of the kernel's answer or of the socket. Takes as long
// as the kernel needs to look it up, and waits for nobody. From any thread.
int AskRdmaNetlink(uint16_t command, const std::vector<NetlinkNumber>& of, bool all,
                   const std::function<void(const void* first, int length)>& on_message);

// It has no header of its own; its attributes are like rtnetlink's. `function` takes the attribute's type, and the
// attribute.
template <typename Function>
void ForEachAttribute(const void* first, int length, const Function& function) {
  const auto* attribute = static_cast<const rtattr*>(first);
  for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) {
    function(attribute->rta_type & NLA_TYPE_MASK, attribute);
  }
}

// Calls `function` as ForEachAttribute does for those within a table or one of its entries.
template <typename Function>
void ForEachWithin(const rtattr* table, const Function& function) {
  ForEachAttribute(RTA_DATA(table), static_cast<int>(RTA_PAYLOAD(table)), function);
}

// 0: it is too short for one.
uint32_t ReadNumber(const rtattr* attribute);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_RDMA_NETLINK_H_
