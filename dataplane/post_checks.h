// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_POST_CHECKS_H_
#define DATAPLANE_POST_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "dataplane/ndk/status.h"
#include "dataplane/operation.h"

namespace rdmabroker {

// Refusals of requests and queues that all kinds of adapter share, each with a hint (refusal.h).

// kInvalidParameter: flags that the request may not have.
NdkStatus RefuseFlags(OperationType type, OpFlags flags);
// kInvalidParameter: something that the request names is null, or another adapter's or domain's.
NdkStatus RefuseNamed();
// kDataOverrun.
NdkStatus RefusePieces(size_t pieces, uint64_t bytes, size_t most_pieces, uint64_t most_bytes);
// kDataOverrun: more inline data than the queue pair was made for.
NdkStatus RefuseInlineData(uint64_t bytes, uint32_t most);
// kInvalidParameter: a depth above the adapter's limit.
NdkStatus RefuseDepth(uint32_t depth, uint32_t most);
// kInsufficientResources.
NdkStatus RefuseFullQueue(size_t depth);
// kConnectionInvalid: no connection that takes requests.
NdkStatus RefuseUnconnected();
// kInvalidDeviceRequest: a receive of a queue pair that has a shared receive queue.
NdkStatus RefuseOwnReceives();
// kBufferOverflow: a queue that is made shorter than what it holds.
NdkStatus RefuseShorterQueue(size_t depth, size_t held);
// kInvalidParameterMix: a moderation that might notify of nothing.
NdkStatus RefuseModeration(uint32_t count, size_t depth);
// kConnectionActive: the queue pair has a connection, or had one.
NdkStatus RefuseUsedQueuePair();

}  // namespace rdmabroker

#endif  // DATAPLANE_POST_CHECKS_H_
