// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/work_request.h"

#include <gtest/gtest.h>

#include <array>

namespace rdmabroker::verbs {
namespace {

TEST(WorkRequest, EmptyPiecesAreLeftOut) {
  std::array<uint8_t, 8> memory = {};
  const Sge sges[] = {{memory.data(), 0, LocalToken{1}},
                      {memory.data() + 1, 3, LocalToken{2}},
                      {nullptr, 0, LocalToken{3}},
                      {memory.data() + 4, 4, LocalToken{4}}};
  ibv_sge pieces[4] = {};
  ASSERT_EQ(CopySges(sges, true, pieces), 2);
  EXPECT_EQ(pieces[0].addr, reinterpret_cast<uint64_t>(memory.data() + 1));
  EXPECT_EQ(pieces[0].length, 3u);
  EXPECT_EQ(pieces[0].lkey, 2u);
  EXPECT_EQ(pieces[1].lkey, 4u);
}

TEST(WorkRequest, AReceiveWithoutMemoryHasAPieceOnlyWhereOneIsNeeded) {
  const Sge empty[1] = {};
  for (const std::span<const Sge> sges : {std::span<const Sge>(), std::span<const Sge>(empty)}) {
    ibv_sge piece = {.addr = 1, .length = 1, .lkey = 1};
    EXPECT_EQ(ReceiveRequest(5, sges, false, &piece).num_sge, 0);
    const ibv_recv_wr request = ReceiveRequest(5, sges, true, &piece);
    EXPECT_EQ(request.num_sge, 1);
    EXPECT_EQ(piece.length, 0u);
    EXPECT_EQ(request.wr_id, kReceiveRequest | 5);
  }
}

}  // namespace
}  // namespace rdmabroker::verbs
