// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/send_chain.h"

#include <utility>

#include "dataplane/verbs/verbs_status.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {

ibv_send_wr& SendChain::Add(std::span<const Sge> sges, bool at_least_one) {
  ibv_send_wr& request = requests_[size_];
  request = {};
  request.sg_list = sges_.data() + size_ * max_sge_;
  request.num_sge = CopySges(sges, at_least_one, request.sg_list);
  if (size_ > 0) requests_[size_ - 1].next = &request;
  ++size_;
  return request;
}

SendChain::Posted SendChain::Post(ibv_qp* queue_pair) {
  const size_t size = std::exchange(size_, 0);
  if (size == 0) return {};
  ibv_send_wr* refused = nullptr;
  const NdkStatus status = FromPost(ibv_post_send(queue_pair, requests_.data(), &refused));
  if (status == NdkStatus::kSuccess) return {.accepted = size};
  return {.accepted = refused == nullptr ? 0 : static_cast<size_t>(refused - requests_.data()), .status = status};
}

}  // namespace rdmabroker::verbs
