// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_QUEUE_PAIR_MAKER_H_
#define DATAPLANE_VERBS_DEVICE_QUEUE_PAIR_MAKER_H_

#include <sys/types.h>

#include <cerrno>
#include <cstdint>

namespace rdmabroker::verbs {

// What is known of a queue pair and of the thread that made it.
struct QueuePairMaker {
  int error = ENOENT;  // ENOENT: the kernel shows no queue pair with this number. Another errno: of the search.
  pid_t thread = 0;    // 0: not shown.
  bool kernel = false;
  bool failed = false;  // It is in the error state, which iWARP's drivers do not tell.
};

// By RDMA netlink (RDMA_NLDEV_CMD_RES_QP_GET), which tells it to everybody. Takes as long as the kernel needs to look
// it up; where it does not know the queue pair's port, to list all of the device. From any thread.
QueuePairMaker FindQueuePairMaker(uint32_t device_index, uint32_t number);

// The same without a list. EAGAIN: it is there, and the kernel does not know its port, as on iWARP devices.
QueuePairMaker LookAtQueuePair(uint32_t device_index, uint32_t number);

// Whether there is one with this number to be found. True where the kernel does not tell.
bool IsQueuePairShown(uint32_t device_index, uint32_t number);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_QUEUE_PAIR_MAKER_H_
