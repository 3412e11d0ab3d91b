// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/tcp_pair.h"
#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

class IwarpDataPaths final : public DataPathPair {
 public:
  Adapter* Open() override { return iwarp::OpenAdapter().object; }
  void Connect(QueuePair* one, ConnectionEndCallback on_end_of_one, QueuePair* other,
               ConnectionEndCallback on_end_of_other) override {
    TcpPair pair = ConnectTcpPair();
    const iwarp::States states = iwarp::StatesFor();
    ASSERT_EQ(one->Attach({std::move(pair.active), EncodeConnectionState(states.active)}, std::move(on_end_of_one)),
              NdkStatus::kSuccess);
    ASSERT_EQ(
        other->Attach({std::move(pair.passive), EncodeConnectionState(states.passive)}, std::move(on_end_of_other)),
        NdkStatus::kSuccess);
  }
  bool tells_of_ends() const override { return true; }
};

const DataPathCase kCase = {"OverTcp", [] { return std::make_unique<IwarpDataPaths>(); }};

std::string NameOf(const ::testing::TestParamInfo<DataPathCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Iwarp, DataPathConformance, ::testing::Values(kCase), NameOf);
INSTANTIATE_TEST_SUITE_P(Iwarp, DataPathQueueConformance, ::testing::Values(kCase), NameOf);

}  // namespace
}  // namespace rdmabroker
