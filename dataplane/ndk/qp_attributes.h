// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_QP_ATTRIBUTES_H_
#define DATAPLANE_NDK_QP_ATTRIBUTES_H_

#include <array>
#include <cstdint>

namespace rdmabroker {

// The attributes with which a client moves its queue pair by ibv_modify_qp: the fields of struct ibv_qp_attr that
// rdma_cm sets (rdma_init_qp_attr(3)); `mask` says which of them count (enum ibv_qp_attr_mask). There is one for each
// step that the client takes: INIT, RTR and RTS with a three-way handshake; where the driver moves the queue pair
// (iWARP), INIT at most.
struct QpAttributes {
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
  // The address vector; the first three are the global route's.
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

  bool operator==(const QpAttributes&) const = default;
};

// What a number of enum ibv_mtu stands for, in bytes; 0 for one that is not of it.
constexpr uint32_t MtuInBytes(uint32_t ibv_mtu) { return ibv_mtu < 1 || ibv_mtu > 5 ? 0 : 128U << ibv_mtu; }

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_QP_ATTRIBUTES_H_
