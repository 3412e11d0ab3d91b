// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/qp_attributes.h"

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>

namespace rdmabroker {
namespace {

// How long a peer waits that found no receive posted: 0.64 ms, as librdmacm has it (InfiniBand Architecture
// Specification, volume 1, table 45). The kernel leaves it 0, which stands for 655 ms.
constexpr uint32_t kReceiverNotReadyTimer = 12;

}  // namespace

QpAttributes FromKernel(const ib_uverbs_qp_attr& kernel) {
  QpAttributes attributes = {
      .mask = kernel.qp_attr_mask,
      .qp_state = kernel.qp_state,
      .path_mtu = kernel.path_mtu,
      .qkey = kernel.qkey,
      .rq_psn = kernel.rq_psn,
      .sq_psn = kernel.sq_psn,
      .dest_qp_number = kernel.dest_qp_num,
      .access_flags = kernel.qp_access_flags,
      .pkey_index = kernel.pkey_index,
      .port_number = (kernel.qp_attr_mask & IBV_QP_AV) != 0 ? kernel.ah_attr.port_num : kernel.port_num,
      .max_outbound_reads = kernel.max_rd_atomic,
      .max_inbound_reads = kernel.max_dest_rd_atomic,
      .min_rnr_timer = kReceiverNotReadyTimer,
      .timeout = kernel.timeout,
      .retry_count = kernel.retry_cnt,
      .rnr_retry = kernel.rnr_retry,
      .destination_gid = {},
      .flow_label = kernel.ah_attr.grh.flow_label,
      .source_gid_index = kernel.ah_attr.grh.sgid_index,
      .hop_limit = kernel.ah_attr.grh.hop_limit,
      .traffic_class = kernel.ah_attr.grh.traffic_class,
      .destination_lid = kernel.ah_attr.dlid,
      .service_level = kernel.ah_attr.sl,
      .source_path_bits = kernel.ah_attr.src_path_bits,
      .static_rate = kernel.ah_attr.static_rate,
      .is_global = kernel.ah_attr.is_global != 0,
  };
  std::copy_n(kernel.ah_attr.grh.dgid, attributes.destination_gid.size(), attributes.destination_gid.begin());
  return attributes;
}

}  // namespace rdmabroker
