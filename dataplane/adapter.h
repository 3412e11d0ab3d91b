// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_ADAPTER_H_
#define DATAPLANE_ADAPTER_H_

#include <chrono>
#include <cstdint>

#include "dataplane/completion_queue.h"
#include "dataplane/data_object.h"
#include "dataplane/memory.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/queue_pair.h"
#include "dataplane/shared_receive_queue.h"

namespace rdmabroker {

// A peer's silence by which its host counts as dead. The minimum leaves TCP, which counts in seconds, time for one
// question.
inline constexpr std::chrono::seconds kDefaultKeepalive{30};
inline constexpr std::chrono::seconds kMinKeepalive{2};
inline constexpr std::chrono::hours kMaxKeepalive{1};

// The numbers are bounded by AdapterInfo; more is kInvalidParameter. The queues must belong to the same adapter.
struct QueuePairAttributes {
  CompletionQueue* receive_cq = nullptr;
  CompletionQueue* initiator_cq = nullptr;  // May be the same.
  SharedReceiveQueue* srq = nullptr;        // Instead of a receive queue of its own, if not null.
  void* context = nullptr;                  // Comes back in each result.
  uint32_t receive_queue_depth = 0;         // Ignored with an SRQ, like max_receive_request_sge.
  uint32_t initiator_queue_depth = 0;
  uint32_t max_receive_request_sge = 1;
  uint32_t max_initiator_request_sge = 1;
  uint32_t inline_data_size = 0;  // Bytes.
  // Where the peer's host has not been heard for so long, though it was asked meanwhile, the connection ends like one
  // that breaks. The host answers, not the program: a program that is stopped, or takes nothing, is not dead. 0: nobody
  // asks, and a host that dies silently may go unnoticed for good. Anything else below kMinKeepalive or above
  // kMaxKeepalive is kInvalidParameter. docs/reliability.md says which adapters may take longer.
  std::chrono::seconds keepalive = kDefaultKeepalive;
};

// The numbers are bounded by AdapterInfo; more, or a depth of 0, is kInvalidParameter.
struct SharedReceiveQueueAttributes {
  uint32_t depth = 0;
  uint32_t max_receive_request_sge = 1;
  uint32_t notify_threshold = 0;      // 0: no notification is armed.
  SrqNotification notification = {};  // May be empty.
};

// NDK_PD: regions, windows and queue pairs of one domain work together, and with no others.
//
// Its Create functions complete inline. Besides the statuses that each names: kInsufficientResources: the device or the
// process has no room; kNotSupported: the device has no such objects.
class ProtectionDomain : public DataObject {
 public:
  // The region has no memory yet. It is for QueuePair::FastRegister if `fast_register`, else for
  // MemoryRegion::Register.
  virtual Created<MemoryRegion> CreateMemoryRegion(bool fast_register) = 0;
  // The window is bound to nothing yet.
  virtual Created<MemoryWindow> CreateMemoryWindow() = 0;
  // The queue is empty. kInvalidParameter: the attributes are beyond the adapter's limits.
  virtual Created<SharedReceiveQueue> CreateSharedReceiveQueue(SharedReceiveQueueAttributes attributes) = 0;
  // The queue pair is not connected, but receives may be posted to it. kInvalidParameter: the attributes are beyond the
  // adapter's limits, keepalive is beyond its own, or a queue is missing or belongs to another adapter.
  virtual Created<QueuePair> CreateQueuePair(const QueuePairAttributes& attributes) = 0;
};

// NDK_ADAPTER as far as data goes: an opened device. What the device lacks is 0 or unset in info(), and the functions
// for it return kNotSupported.
class Adapter : public DataObject {
 public:
  virtual const AdapterInfo& info() const = 0;
  // kInsufficientResources: the device has no room for it.
  virtual Created<ProtectionDomain> CreateProtectionDomain() = 0;
  // kInvalidParameter: depth 0 or beyond max_cq_depth. `notification` may be empty.
  virtual Created<CompletionQueue> CreateCompletionQueue(uint32_t depth, CqNotification notification) = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_ADAPTER_H_
