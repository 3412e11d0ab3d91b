// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_ADAPTER_CHECKS_H_
#define DATAPLANE_ADAPTER_CHECKS_H_

#include <cstdint>

#include "dataplane/adapter.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// Checks that all kinds of adapter share. Each returns kSuccess, or kInvalidParameter with a hint (refusal.h).

// Whether the numbers are within the adapter's limits, and the keepalive within its own.
NdkStatus CheckAttributes(const QueuePairAttributes& attributes, const AdapterInfo& info);
NdkStatus CheckAttributes(const SharedReceiveQueueAttributes& attributes, const AdapterInfo& info);
// Of a queue.
NdkStatus CheckDepth(uint32_t depth, uint32_t most);
// For a queue pair whose queues are not all there, or not of its adapter and domain.
NdkStatus RefuseStrangers();

}  // namespace rdmabroker

#endif  // DATAPLANE_ADAPTER_CHECKS_H_
