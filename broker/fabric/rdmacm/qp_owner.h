// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_QP_OWNER_H_
#define BROKER_FABRIC_RDMACM_QP_OWNER_H_

#include <sys/types.h>

#include <cstdint>

#include "broker/core/ids.h"

namespace rdmabroker {

enum class QpOwner : uint8_t {
  kThisProcess,
  kAnother,   // Another process, or the kernel.
  kNobody,    // The kernel shows none with this number.
  kNotShown,  // The thread that made it has ended or is in another pid namespace; or the kernel does not tell.
};

// Who made the queue pair, by RDMA netlink (RDMA_NLDEV_CMD_RES_QP_GET), which names the creating thread to everybody.
// Takes as long as the kernel needs to look it up; where it does not know the queue pair's port, as on iWARP devices,
// to list all of the device. From any thread.
QpOwner FindQpOwner(uint32_t device_index, QpNumber qp, pid_t process);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_QP_OWNER_H_
