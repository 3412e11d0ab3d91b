// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/testing/attach.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "dataplane/verbs/transition.h"

namespace rdmabroker::verbs {

std::vector<QpAttributes> TransitionsTo(uint32_t peer, uint32_t receiver_retries) {
  const QpAttributes init = {.mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_PKEY_INDEX,
                             .qp_state = IBV_QPS_INIT,
                             .access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
                             .port_number = 1};
  // A retry comes after the longest time there is.
  const QpAttributes ready_to_receive = {.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                                         .qp_state = IBV_QPS_RTR,
                                         .path_mtu = IBV_MTU_4096,
                                         .dest_qp_number = peer,
                                         .port_number = 1,
                                         .max_inbound_reads = 16,
                                         .min_rnr_timer = 0};
  const QpAttributes ready_to_send = {.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                                      .qp_state = IBV_QPS_RTS,
                                      .max_outbound_reads = 16,
                                      .timeout = 14,
                                      .retry_count = 7,
                                      .rnr_retry = receiver_retries};
  return {init, ready_to_receive, ready_to_send};
}

namespace {

void Move(QueuePair* pair, const ConnectionEndCallback& on_end, uint32_t peer, uint32_t receiver_retries) {
  for (const QpAttributes& step : TransitionsTo(peer, receiver_retries)) {
    ASSERT_EQ(pair->Attach(AttachmentFor(step), on_end), NdkStatus::kSuccess);
  }
}

}  // namespace

void AttachToEachOther(QueuePair* one, const ConnectionEndCallback& on_end_of_one, QueuePair* other,
                       const ConnectionEndCallback& on_end_of_other, uint32_t receiver_retries) {
  ASSERT_NO_FATAL_FAILURE(Move(one, on_end_of_one, other->number(), receiver_retries));
  ASSERT_NO_FATAL_FAILURE(Move(other, on_end_of_other, one->number(), receiver_retries));
  ASSERT_EQ(one->Attach({}, on_end_of_one), NdkStatus::kSuccess);
  ASSERT_EQ(other->Attach({}, on_end_of_other), NdkStatus::kSuccess);
}

}  // namespace rdmabroker::verbs
