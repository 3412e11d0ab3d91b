// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/side_queue_pairs.h"

#include "tests/bench/handshake_board.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr uint32_t kQueueDepth = 2;  // The benchmark sends nothing.

}  // namespace

SideQueuePairs::SideQueuePairs(Adapter* adapter)
    : domain_(adapter->CreateProtectionDomain().object),
      queue_(adapter->CreateCompletionQueue(kQueueDepth * HandshakeBoard::kMostConnections, {}).object) {
  Require(domain_ != nullptr && queue_ != nullptr, "no domain or no completion queue");
}

void SideQueuePairs::Make(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    pairs_.push_back(domain_
                         ->CreateQueuePair({.receive_cq = queue_,
                                            .initiator_cq = queue_,
                                            .receive_queue_depth = kQueueDepth,
                                            .initiator_queue_depth = kQueueDepth,
                                            .max_receive_request_sge = 1,
                                            .max_initiator_request_sge = 1})
                         .object);
    Require(pairs_.back() != nullptr, "no queue pair");
  }
}

}  // namespace rdmabroker::bench
