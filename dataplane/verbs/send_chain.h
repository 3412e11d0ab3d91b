// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_SEND_CHAIN_H_
#define DATAPLANE_VERBS_SEND_CHAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/operation.h"

namespace rdmabroker::verbs {

// Requests that go to the hardware in one call. Not thread-safe.
class SendChain {
 public:
  // So many share the cost of the call that more save nothing worth waiting for.
  static constexpr size_t kMost = 32;

  // `max_sge` of each.
  explicit SendChain(uint32_t max_sge) : max_sge_(max_sge), requests_(kMost), sges_(kMost * max_sge) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t room() const { return kMost - size_; }

  // The next request, with its SGEs and nothing else; there must be room. Good until the chain is posted.
  // `at_least_one`: as CopySges'.
  ibv_send_wr& Add(std::span<const Sge> sges, bool at_least_one);

  struct Posted {
    size_t accepted = 0;                     // How many of them.
    NdkStatus status = NdkStatus::kSuccess;  // Of the next one.
  };
  // Empties the chain.
  Posted Post(ibv_qp* queue_pair);
  void Clear() { size_ = 0; }

 private:
  const uint32_t max_sge_;
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> sges_;
  size_t size_ = 0;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_SEND_CHAIN_H_
