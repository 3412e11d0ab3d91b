// SPDX-License-Identifier: Apache-2.0

// dataplane/verbs over a device in this program's memory, which cancels at once: what a device of the kernel's does in
// its own time, data_path_verbs_test.cc shows.

#include <gtest/gtest.h>

#include <memory>

#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/testing/attach.h"
#include "dataplane/verbs/testing/stand_in.h"
#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

class StandInDataPaths final : public DataPathPair {
 public:
  Adapter* Open() override { return verbs::OpenAdapter(verbs::StandIn::kName).object; }
  void Connect(QueuePair* one, ConnectionEndCallback on_end_of_one, QueuePair* other,
               ConnectionEndCallback on_end_of_other) override {
    verbs::AttachToEachOther(one, on_end_of_one, other, on_end_of_other);
  }
  bool tells_of_ends() const override { return false; }
};

const DataPathCase kCase = {"StandIn", [] { return std::make_unique<StandInDataPaths>(); }};

std::string NameOf(const ::testing::TestParamInfo<DataPathCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Verbs, DataPathConformance, ::testing::Values(kCase), NameOf);
INSTANTIATE_TEST_SUITE_P(Verbs, DataPathQueueConformance, ::testing::Values(kCase), NameOf);

}  // namespace
}  // namespace rdmabroker
