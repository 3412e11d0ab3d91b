// SPDX-License-Identifier: Apache-2.0

// A process whose descriptors are all in use. In a process of its own: the first completion queue starts the thread
// that makes progress.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/side_for_test.h"

namespace rdmabroker::iwarp {
namespace {

TEST(WithoutDescriptors, ACompletionQueueIsRefusedAndMayBeAskedForAgain) {
  Adapter* const adapter = OpenAdapter().object;
  // The undefined-behaviour sanitizer looks at a type's first object through a descriptor.
  ASSERT_GE(adapter->info().max_cq_depth, 16u);
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Created<CompletionQueue> refused = adapter->CreateCompletionQueue(16, {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(refused.status, NdkStatus::kInsufficientResources);
  const Created<CompletionQueue> made = adapter->CreateCompletionQueue(16, {});
  ASSERT_EQ(made.status, NdkStatus::kSuccess);
  CloseAndWait(made.object);
  CloseAndWait(adapter);
}

}  // namespace
}  // namespace rdmabroker::iwarp
