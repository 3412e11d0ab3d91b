// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/qp_attributes.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace rdmabroker::verbs {
namespace {

template <typename Field>
bool Narrow(uint32_t value, Field* field) {
  if (value > std::numeric_limits<Field>::max()) return false;
  *field = static_cast<Field>(value);
  return true;
}

// A timeout of t is 4.096 us * 2^t; 0 is for ever.
constexpr std::chrono::nanoseconds kTimeoutUnit{4096};
constexpr uint8_t kMostTimeout = 31;

// To Soft-RoCE 7 is for ever (rxe_completer in drivers/infiniband/sw/rxe/rxe_comp.c).
constexpr uint8_t kMostRetries = 6;

bool FillAddress(const QpAttributes& transition, ibv_ah_attr* address) {
  std::memcpy(address->grh.dgid.raw, transition.destination_gid.data(), transition.destination_gid.size());
  address->grh.flow_label = transition.flow_label;
  address->is_global = transition.is_global ? 1 : 0;
  return Narrow(transition.source_gid_index, &address->grh.sgid_index) &&
         Narrow(transition.hop_limit, &address->grh.hop_limit) &&
         Narrow(transition.traffic_class, &address->grh.traffic_class) &&
         Narrow(transition.destination_lid, &address->dlid) && Narrow(transition.service_level, &address->sl) &&
         Narrow(transition.source_path_bits, &address->src_path_bits) &&
         Narrow(transition.static_rate, &address->static_rate) && Narrow(transition.port_number, &address->port_num);
}

}  // namespace

std::optional<ibv_qp_attr> AttributesOf(const QpAttributes& transition) {
  if (transition.qp_state < IBV_QPS_INIT || transition.qp_state > IBV_QPS_RTS || transition.path_mtu > IBV_MTU_4096 ||
      (transition.mask & IBV_QP_STATE) == 0) {
    return std::nullopt;
  }
  ibv_qp_attr attributes = {};
  attributes.qp_state = static_cast<ibv_qp_state>(transition.qp_state);
  attributes.path_mtu = static_cast<ibv_mtu>(transition.path_mtu);
  attributes.qkey = transition.qkey;
  attributes.rq_psn = transition.rq_psn;
  attributes.sq_psn = transition.sq_psn;
  attributes.dest_qp_num = transition.dest_qp_number;
  attributes.qp_access_flags = transition.access_flags;
  const bool fits =
      Narrow(transition.pkey_index, &attributes.pkey_index) && Narrow(transition.port_number, &attributes.port_num) &&
      Narrow(transition.max_outbound_reads, &attributes.max_rd_atomic) &&
      Narrow(transition.max_inbound_reads, &attributes.max_dest_rd_atomic) &&
      Narrow(transition.min_rnr_timer, &attributes.min_rnr_timer) && Narrow(transition.timeout, &attributes.timeout) &&
      Narrow(transition.retry_count, &attributes.retry_cnt) && Narrow(transition.rnr_retry, &attributes.rnr_retry) &&
      FillAddress(transition, &attributes.ah_attr);
  if (!fits) return std::nullopt;
  return attributes;
}

void FailWithin(std::chrono::nanoseconds most, ibv_qp_attr* attributes) {
  attributes->retry_cnt = std::min(attributes->retry_cnt, kMostRetries);
  const std::chrono::nanoseconds each = most / (attributes->retry_cnt + 1);
  uint8_t timeout = kMostTimeout;
  while (timeout > 1 && kTimeoutUnit * (int64_t{1} << timeout) > each) --timeout;
  attributes->timeout = attributes->timeout == 0 ? timeout : std::min(attributes->timeout, timeout);
}

}  // namespace rdmabroker::verbs
