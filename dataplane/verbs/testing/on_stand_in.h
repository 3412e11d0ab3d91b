// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TESTING_ON_STAND_IN_H_
#define DATAPLANE_VERBS_TESTING_ON_STAND_IN_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>

#include "dataplane/testing/side.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/testing/attach.h"
#include "dataplane/verbs/testing/stand_in.h"

namespace rdmabroker::verbs {

// Two processes' worth of objects on the stand-in, of which nothing may be left in the end.
class OnStandIn : public testing::Test {
 protected:
  void SetUp() override {
    StandIn::Reset();
    a = NewSide();
    b = NewSide();
  }
  void TearDown() override {
    a = nullptr;
    b = nullptr;
    EXPECT_EQ(StandIn::Objects(), 0u) << "that nobody has destroyed";
    StandIn::Reset();
  }

  static std::unique_ptr<DataSide> NewSide(const SideOptions& options = {}) {
    return std::make_unique<DataSide>(OpenAdapter(StandIn::kName).object, true, options);
  }
  // Both sides' own queue pairs.
  void Connect(uint32_t receiver_retries = kOneRetry) {
    AttachToEachOther(a->qp, a->NotesEnd(), b->qp, b->NotesEnd(), receiver_retries);
  }
  // Whether `act` takes less than the second after which the data path cancels by itself. It is tried three times, with
  // new sides, since a busy machine may take as long once.
  bool IsQuick(const std::function<void()>& act) {
    for (int tries = 0; tries < 3; ++tries) {
      const auto begin = std::chrono::steady_clock::now();
      act();
      if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(900)) return true;
      a = NewSide();
      b = NewSide();
    }
    return false;
  }
  // How many results wait in the side's queue; takes them.
  static size_t TakeAll(DataSide& side) {
    size_t count = 0;
    for (ResultEx result; side.cq->GetResultsEx({&result, 1}) == 1;) ++count;
    return count;
  }

  std::unique_ptr<DataSide> a, b;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TESTING_ON_STAND_IN_H_
