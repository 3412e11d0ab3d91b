// SPDX-License-Identifier: Apache-2.0

#include "client/data_path.h"

#include <algorithm>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/transition.h"
#include "proto/rdmabroker/v1/connection.pb.h"

namespace rdmabroker::client {
namespace {

QpAttributes FromMessage(const v1::QpAttributes& message) {
  QpAttributes transition;
  transition.mask = message.mask();
  transition.qp_state = message.qp_state();
  transition.path_mtu = message.path_mtu();
  transition.qkey = message.qkey();
  transition.rq_psn = message.rq_psn();
  transition.sq_psn = message.sq_psn();
  transition.dest_qp_number = message.dest_qp_number();
  transition.access_flags = message.access_flags();
  transition.pkey_index = message.pkey_index();
  transition.port_number = message.port_number();
  transition.max_outbound_reads = message.max_outbound_reads();
  transition.max_inbound_reads = message.max_inbound_reads();
  transition.min_rnr_timer = message.min_rnr_timer();
  transition.timeout = message.timeout();
  transition.retry_count = message.retry_count();
  transition.rnr_retry = message.rnr_retry();
  const std::string& gid = message.destination_gid();
  std::copy_n(gid.begin(), std::min(gid.size(), transition.destination_gid.size()), transition.destination_gid.begin());
  transition.flow_label = message.flow_label();
  transition.source_gid_index = message.source_gid_index();
  transition.hop_limit = message.hop_limit();
  transition.traffic_class = message.traffic_class();
  transition.destination_lid = message.destination_lid();
  transition.service_level = message.service_level();
  transition.source_path_bits = message.source_path_bits();
  transition.static_rate = message.static_rate();
  transition.is_global = message.is_global();
  return transition;
}

DataPath OverVerbs(RdmaTechnology technology) {
  return {
      .technology = technology,
      .open = verbs::OpenAdapter,
      .release_device = verbs::ReleaseDevice,
      .transition = [](const v1::QpAttributes& attributes) { return verbs::AttachmentFor(FromMessage(attributes)); }};
}

}  // namespace

std::vector<DataPath> BuiltInDataPaths() {
  return {{.technology = RdmaTechnology::kIwarp,
           .client_ends_connections = true,
           .open = [](const std::string&) { return iwarp::OpenAdapter(); }},
          OverVerbs(RdmaTechnology::kIwarp),
          OverVerbs(RdmaTechnology::kRoceV2),
          OverVerbs(RdmaTechnology::kInfiniBand)};
}

}  // namespace rdmabroker::client
