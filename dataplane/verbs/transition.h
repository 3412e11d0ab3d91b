// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TRANSITION_H_
#define DATAPLANE_VERBS_TRANSITION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dataplane/queue_pair.h"

namespace rdmabroker::verbs {

// One step of a queue pair: the fields of struct ibv_qp_attr that rdma_cm sets (rdma_init_qp_attr(3)), of which `mask`
// (enum ibv_qp_attr_mask) tells which count.
struct Transition {
  uint32_t mask = 0;
  uint32_t qp_state = 0;  // enum ibv_qp_state.
  uint32_t path_mtu = 0;  // enum ibv_mtu.
  uint32_t qkey = 0;
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint32_t dest_qp_number = 0;
  uint32_t access_flags = 0;
  uint32_t pkey_index = 0;
  uint32_t port_number = 0;
  uint32_t max_outbound_reads = 0;  // max_rd_atomic.
  uint32_t max_inbound_reads = 0;   // max_dest_rd_atomic.
  uint32_t min_rnr_timer = 0;
  uint32_t timeout = 0;
  uint32_t retry_count = 0;
  uint32_t rnr_retry = 0;
  // The address vector; it begins with the global route.
  std::array<uint8_t, 16> destination_gid = {};
  uint32_t flow_label = 0;
  uint32_t source_gid_index = 0;
  uint32_t hop_limit = 0;
  uint32_t traffic_class = 0;
  uint32_t destination_lid = 0;
  uint32_t service_level = 0;
  uint32_t source_path_bits = 0;
  uint32_t static_rate = 0;
  bool is_global = false;

  bool operator==(const Transition&) const = default;
};

// What QueuePair::Attach takes for it. The bytes are good within this process only.
Attachment AttachmentFor(const Transition& transition);
// Nothing where the bytes are not from there.
std::optional<Transition> TransitionOf(std::string_view state);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TRANSITION_H_
