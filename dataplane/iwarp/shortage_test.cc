// SPDX-License-Identifier: Apache-2.0

// A process that gets no descriptors, or no threads. In a process of its own: the first completion queue starts the
// thread that makes progress.

#include <gtest/gtest.h>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/thread_shortage.h"

namespace rdmabroker::iwarp {
namespace {

TEST(WithoutDescriptorsOrThreads, ACompletionQueueIsRefusedAndMayBeAskedForAgain) {
  Adapter* const adapter = OpenAdapter().object;
  {
    const DescriptorShortage shortage;
    EXPECT_EQ(adapter->CreateCompletionQueue(16, {}).status, NdkStatus::kInsufficientResources);
  }
  {
    const ThreadShortage shortage;
    EXPECT_EQ(adapter->CreateCompletionQueue(16, {}).status, NdkStatus::kInsufficientResources);
  }
  const Created<CompletionQueue> made = adapter->CreateCompletionQueue(16, {});
  ASSERT_EQ(made.status, NdkStatus::kSuccess);
  CloseAndWait(made.object);
  CloseAndWait(adapter);
}

}  // namespace
}  // namespace rdmabroker::iwarp
