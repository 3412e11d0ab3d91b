// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/transition.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "dataplane/verbs/keepalive_times.h"
#include "dataplane/verbs/qp_attributes.h"

namespace rdmabroker::verbs {
namespace {

// Each field with a value of its own.
QpAttributes Numbered() {
  QpAttributes transition = {.mask = IBV_QP_STATE | IBV_QP_AV, .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
  uint32_t next = 10;
  for (uint32_t QpAttributes::*const field : {&QpAttributes::qkey,
                                              &QpAttributes::rq_psn,
                                              &QpAttributes::sq_psn,
                                              &QpAttributes::dest_qp_number,
                                              &QpAttributes::access_flags,
                                              &QpAttributes::pkey_index,
                                              &QpAttributes::port_number,
                                              &QpAttributes::max_outbound_reads,
                                              &QpAttributes::max_inbound_reads,
                                              &QpAttributes::min_rnr_timer,
                                              &QpAttributes::timeout,
                                              &QpAttributes::retry_count,
                                              &QpAttributes::rnr_retry,
                                              &QpAttributes::flow_label,
                                              &QpAttributes::source_gid_index,
                                              &QpAttributes::hop_limit,
                                              &QpAttributes::traffic_class,
                                              &QpAttributes::destination_lid,
                                              &QpAttributes::service_level,
                                              &QpAttributes::source_path_bits,
                                              &QpAttributes::static_rate}) {
    transition.*field = next++;
  }
  transition.destination_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  transition.is_global = true;
  return transition;
}

TEST(Transition, TravelsAsAnAttachmentWithoutASocket) {
  const Attachment attachment = AttachmentFor(Numbered());
  EXPECT_FALSE(attachment.socket);
  EXPECT_EQ(TransitionOf(attachment.state), Numbered());
  EXPECT_EQ(TransitionOf(""), std::nullopt);
  EXPECT_EQ(TransitionOf(attachment.state + "x"), std::nullopt);
}

TEST(Transition, EveryFieldReachesItsAttribute) {
  const std::optional<ibv_qp_attr> attributes = AttributesOf(Numbered());
  ASSERT_TRUE(attributes.has_value());
  EXPECT_EQ(attributes->qp_state, IBV_QPS_RTR);
  EXPECT_EQ(attributes->path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attributes->qkey, 10u);
  EXPECT_EQ(attributes->rq_psn, 11u);
  EXPECT_EQ(attributes->sq_psn, 12u);
  EXPECT_EQ(attributes->dest_qp_num, 13u);
  EXPECT_EQ(attributes->qp_access_flags, 14u);
  EXPECT_EQ(attributes->pkey_index, 15u);
  EXPECT_EQ(attributes->port_num, 16u);
  EXPECT_EQ(attributes->max_rd_atomic, 17u);
  EXPECT_EQ(attributes->max_dest_rd_atomic, 18u);
  EXPECT_EQ(attributes->min_rnr_timer, 19u);
  EXPECT_EQ(attributes->timeout, 20u);
  EXPECT_EQ(attributes->retry_cnt, 21u);
  EXPECT_EQ(attributes->rnr_retry, 22u);
  const ibv_ah_attr& address = attributes->ah_attr;
  EXPECT_EQ(address.port_num, 16u);
  EXPECT_EQ(address.grh.flow_label, 23u);
  EXPECT_EQ(address.grh.sgid_index, 24u);
  EXPECT_EQ(address.grh.hop_limit, 25u);
  EXPECT_EQ(address.grh.traffic_class, 26u);
  EXPECT_EQ(address.dlid, 27u);
  EXPECT_EQ(address.sl, 28u);
  EXPECT_EQ(address.src_path_bits, 29u);
  EXPECT_EQ(address.static_rate, 30u);
  EXPECT_EQ(address.grh.dgid.raw[15], 8u);
  EXPECT_EQ(address.is_global, 1u);
}

TEST(Transition, NumbersThatDoNotFitTheirFieldsAreRefused) {
  for (uint32_t QpAttributes::*const field :
       {&QpAttributes::qp_state, &QpAttributes::path_mtu, &QpAttributes::pkey_index, &QpAttributes::port_number,
        &QpAttributes::max_outbound_reads, &QpAttributes::max_inbound_reads, &QpAttributes::min_rnr_timer,
        &QpAttributes::timeout, &QpAttributes::retry_count, &QpAttributes::rnr_retry, &QpAttributes::source_gid_index,
        &QpAttributes::hop_limit, &QpAttributes::traffic_class, &QpAttributes::destination_lid,
        &QpAttributes::service_level, &QpAttributes::source_path_bits, &QpAttributes::static_rate}) {
    QpAttributes transition = Numbered();
    transition.*field = 0x10000;
    EXPECT_EQ(AttributesOf(transition).has_value(), false);
  }
  QpAttributes transition = Numbered();
  transition.mask &= ~static_cast<uint32_t>(IBV_QP_STATE);
  EXPECT_FALSE(AttributesOf(transition).has_value()) << "a step that goes nowhere";
  for (const auto state : {IBV_QPS_RESET, IBV_QPS_SQD, IBV_QPS_ERR}) {
    transition = Numbered();
    transition.qp_state = state;
    EXPECT_FALSE(AttributesOf(transition).has_value()) << "it is not the broker's to send a queue pair there";
  }
}

// Four microseconds times two to the power of the timeout, for the first try and each other one.
TEST(Transition, ARequestThatNobodyAcknowledgesFailsInTime) {
  using std::chrono::milliseconds;
  struct Row {
    milliseconds most;
    uint8_t timeout, retries;
    int wanted_timeout, wanted_retries;
  };
  for (const Row& row : {Row{milliseconds(750), 19, 7, 14, 6},        // 7 * 67 ms.
                         Row{milliseconds(11'250), 19, 7, 18, 6},     // 7 * 1.1 s.
                         Row{milliseconds(1'350'000), 19, 7, 19, 6},  // What there is, is less.
                         Row{milliseconds(750), 8, 2, 8, 2},          //
                         Row{milliseconds(750), 19, 0, 17, 0},        //
                         Row{milliseconds(750), 0, 7, 14, 6}}) {      // 0 is for ever.
    ibv_qp_attr attributes = {};
    attributes.timeout = row.timeout;
    attributes.retry_cnt = row.retries;
    FailWithin(row.most, &attributes);
    EXPECT_EQ(attributes.timeout, row.wanted_timeout) << row.most.count() << " ms";
    EXPECT_EQ(attributes.retry_cnt, row.wanted_retries) << row.most.count() << " ms";
  }
}

// The last sign of life comes just after a look. The next one finds it, and the one after that asks; then the adapter
// tries, and a look just before the last try has failed does not know it yet.
TEST(Transition, ASilentPeersEndIsKnownWithinTheTime) {
  using std::chrono::nanoseconds;
  for (const std::chrono::milliseconds keepalive :
       {std::chrono::seconds(2), std::chrono::seconds(8), std::chrono::seconds(30), std::chrono::seconds(3600)}) {
    ibv_qp_attr attributes = {};
    attributes.timeout = 31;
    attributes.retry_cnt = 7;
    FailWithin(TimeToFail(keepalive), &attributes);
    const nanoseconds tries = nanoseconds(4096) * (int64_t{1} << attributes.timeout) * (attributes.retry_cnt + 1);
    const nanoseconds all = 2 * LookWhenHeard(keepalive) + tries + LookWhenAsked(keepalive);
    EXPECT_LE(all.count(), nanoseconds(keepalive).count());
  }
}

}  // namespace
}  // namespace rdmabroker::verbs
