// SPDX-License-Identifier: Apache-2.0

#include "dataplane/post_checks.h"

#include "dataplane/refusal.h"

namespace rdmabroker {

NdkStatus RefuseFlags(OperationType type, OpFlags flags) {
  return Refuse(NdkStatus::kInvalidParameter, "flags: %#x, of which this kind of request may not have %#x", flags,
                flags & ~AllowedFlags(type));
}

NdkStatus RefuseNamed() {
  return Refuse(NdkStatus::kInvalidParameter,
                "region, window: each must be there and of the queue pair's protection domain");
}

NdkStatus RefusePieces(size_t pieces, uint64_t bytes, size_t most_pieces, uint64_t most_bytes) {
  return Refuse(NdkStatus::kDataOverrun,
                "sges: %d pieces with %d bytes; at most %d pieces, as the queue pair was made for, "
                "and %d bytes",
                pieces, bytes, most_pieces, most_bytes);
}

NdkStatus RefuseInlineData(uint64_t bytes, uint32_t most) {
  return Refuse(NdkStatus::kDataOverrun, "sges: %d bytes inline; the queue pair was made for %d (inline_data_size)",
                bytes, most);
}

NdkStatus RefuseDepth(uint32_t depth, uint32_t most) {
  return Refuse(NdkStatus::kInvalidParameter, "depth: %d; at most %d on this adapter", depth, most);
}

NdkStatus RefuseFullQueue(size_t depth) {
  return Refuse(NdkStatus::kInsufficientResources,
                "queue: full with %d requests; take results from its completion queue, or make it deeper", depth);
}

NdkStatus RefuseUnconnected() {
  return Refuse(NdkStatus::kConnectionInvalid, "queue pair: it has no connection yet, or none any more");
}

NdkStatus RefuseOwnReceives() {
  return Refuse(NdkStatus::kInvalidDeviceRequest,
                "queue pair: it takes its receives from a shared receive queue; post them there");
}

NdkStatus RefuseShorterQueue(size_t depth, size_t held) {
  return Refuse(NdkStatus::kBufferOverflow, "depth: %d; %d are in the queue now", depth, held);
}

NdkStatus RefuseModeration(uint32_t count, size_t depth) {
  return Refuse(
      NdkStatus::kInvalidParameterMix,
      "interval_us, count: without an interval, a notification waits for %d results, and the queue has %d places",
      count, depth);
}

NdkStatus RefuseUsedQueuePair() {
  return Refuse(NdkStatus::kConnectionActive, "queue pair: it has a connection, or had one; make another queue pair");
}

}  // namespace rdmabroker
