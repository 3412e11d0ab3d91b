// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_RDMA_MESSAGE_H_
#define DATAPLANE_VERBS_DEVICE_RDMA_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/verbs/device/connection_ids.h"
#include "dataplane/verbs/device/queue_pair_maker.h"

// What AskRdmaNetlink's messages say: attributes (include/uapi/rdma/rdma_netlink.h). A number that is too short for one
// is 0. No I/O.
namespace rdmabroker::verbs {

// Adds those of a list that join a queue pair to a peer, or are about to.
void ParseConnectionIds(const void* first, int length, std::vector<ConnectionId>* found);

// The message is about one queue pair, or a list. Fills *maker in where the one with this number is among them.
void ParseQueuePairs(const void* first, int length, uint32_t number, QueuePairMaker* maker);

struct DeviceMessage {
  std::optional<uint32_t> index;
  std::optional<std::string> name;
};
DeviceMessage ParseDevice(const void* first, int length);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_RDMA_MESSAGE_H_
