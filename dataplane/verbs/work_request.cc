// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {

int CopySges(std::span<const Sge> from, bool at_least_one, ibv_sge* to) {
  int count = 0;
  for (const Sge& sge : from) {
    if (sge.length == 0) continue;
    to[count++] = {.addr = reinterpret_cast<uint64_t>(sge.address),
                   .length = sge.length,
                   .lkey = static_cast<uint32_t>(sge.token)};
  }
  if (count == 0 && at_least_one) to[count++] = {};
  return count;
}

// siw takes no receive without a piece.
ibv_recv_wr ReceiveRequest(uint64_t number, std::span<const Sge> sges, bool iwarp, ibv_sge* pieces) {
  ibv_recv_wr request = {};
  request.wr_id = kReceiveRequest | number;
  request.sg_list = pieces;
  request.num_sge = CopySges(sges, iwarp, pieces);
  return request;
}

}  // namespace rdmabroker::verbs
