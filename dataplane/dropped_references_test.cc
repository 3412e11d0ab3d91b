// SPDX-License-Identifier: Apache-2.0

#include "dataplane/dropped_references.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace rdmabroker {
namespace {

class Object final : public DataObject {};

TEST(DroppedReferences, OneThatIsNotTheLastIsGivenBackAtOnce) {
  auto* const object = new Object;
  DroppedReferences dropped;
  dropped.Add(ObjectReference<Object>(object));
  EXPECT_EQ(object->Close({}), NdkStatus::kSuccess);
}

TEST(DroppedReferences, LastOnesCompleteTheirObjectsClosesInTheEnd) {
  std::vector<int> closed;
  {
    DroppedReferences dropped;
    for (int i = 0; i < 3; ++i) {
      auto* const object = new Object;
      ObjectReference<Object> first(object), second(object);
      EXPECT_EQ(object->Close([&closed, i] { closed.push_back(i); }), NdkStatus::kPending);
      dropped.Add(std::move(first));
      dropped.Add(std::move(second));
    }
    EXPECT_TRUE(closed.empty());
  }
  EXPECT_EQ(closed.size(), 3u);
}

}  // namespace
}  // namespace rdmabroker
