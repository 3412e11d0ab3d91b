// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/queue_pair_maker.h"

#include <rdma/rdma_netlink.h>

#include <vector>

#include "dataplane/verbs/device/rdma_message.h"
#include "dataplane/verbs/device/rdma_netlink.h"

namespace rdmabroker::verbs {
namespace {

// Of hundreds, while others come and go all the time, one list in eighty left out the one that was looked for.
constexpr int kMostLists = 10;

// Asks for the one queue pair, which works where the kernel knows its port and it is the first, or for all of the
// device.
QueuePairMaker Ask(uint32_t device_index, uint32_t number, bool all) {
  std::vector<NetlinkNumber> of = {{RDMA_NLDEV_ATTR_DEV_INDEX, device_index}};
  if (!all) of.insert(of.end(), {{RDMA_NLDEV_ATTR_PORT_INDEX, kFirstPort}, {RDMA_NLDEV_ATTR_RES_LQPN, number}});
  QueuePairMaker maker;
  const int error = AskRdmaNetlink(RDMA_NLDEV_CMD_RES_QP_GET, of, all, [&](const void* first, int length) {
    ParseQueuePairs(first, length, number, &maker);
  });
  if (error != 0) return {.error = error};
  return maker;
}

}  // namespace

QueuePairMaker FindQueuePairMaker(uint32_t device_index, uint32_t number) {
  QueuePairMaker maker = Ask(device_index, number, false);
  // EAGAIN: it is there, but the kernel does not know its port. A list that needs several messages leaves some out
  // where others go meanwhile, as the next message begins behind as many as were shown so far (res_get_common_dumpit in
  // drivers/infiniband/core/nldev.c).
  for (int lists = 0; maker.error == EAGAIN && lists < kMostLists; ++lists) {
    maker = Ask(device_index, number, true);
    if (maker.error == ENOENT) maker = Ask(device_index, number, false);
  }
  return maker;
}

QueuePairMaker LookAtQueuePair(uint32_t device_index, uint32_t number) { return Ask(device_index, number, false); }

bool IsQueuePairShown(uint32_t device_index, uint32_t number) {
  return LookAtQueuePair(device_index, number).error != ENOENT;
}

}  // namespace rdmabroker::verbs
