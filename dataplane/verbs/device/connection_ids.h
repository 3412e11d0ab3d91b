// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_CONNECTION_IDS_H_
#define DATAPLANE_VERBS_DEVICE_CONNECTION_IDS_H_

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace rdmabroker::verbs {

// What the kernel shows everybody of a connection manager's id that joins a queue pair to a peer, or is about to.
struct ConnectionId {
  uint32_t number = 0;  // RDMA netlink's, which is not in use again before all others were.
  uint32_t queue_pair = 0;
  sockaddr_storage local = {};
  sockaddr_storage peer = {};
};

// The device's, by RDMA netlink (RDMA_NLDEV_CMD_RES_CM_ID_GET); in a pid namespace only those that were made in it. One
// may be left out where others go meanwhile. Nothing where the kernel could not be asked, as where descriptors have run
// out. `device_index` is ibv_get_device_index(3)'s. From any thread.
std::optional<std::vector<ConnectionId>> FindConnectionIds(uint32_t device_index);

// Whether it is there. True where the kernel does not tell.
bool IsConnectionIdShown(uint32_t device_index, uint32_t number);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_CONNECTION_IDS_H_
