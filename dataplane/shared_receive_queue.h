// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_SHARED_RECEIVE_QUEUE_H_
#define DATAPLANE_SHARED_RECEIVE_QUEUE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "dataplane/data_object.h"
#include "dataplane/operation.h"

namespace rdmabroker {

// kSuccess: fewer receives than the threshold are queued. kInternalError: the queue and its queue pairs are dead. As
// with CqNotification, calls do not overlap and must not block.
using SrqNotification = std::function<void(NdkStatus)>;

// NDK_SRQ.
class SharedReceiveQueue : public DataObject {
 public:
  // kInsufficientResources: the queue is full. kDataOverrun: too many SGEs. kInvalidDeviceState: it is dead.
  // kUnsuccessful: the hardware refuses. Consumers serialise the calls.
  virtual NdkStatus Receive(void* request_context, std::span<const Sge> sges) = 0;

  // `depth` 0 keeps the depth; kInvalidParameter beyond max_srq_depth, kBufferOverflow if more receives are queued.
  // `notify_threshold` 0 keeps threshold and arming; any other arms one notification, due at once if fewer are queued
  // already. kInvalidDeviceState: it is dead.
  virtual NdkStatus Modify(uint32_t depth, uint32_t notify_threshold) = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_SHARED_RECEIVE_QUEUE_H_
