// SPDX-License-Identifier: Apache-2.0

// A process that gets no more threads.

#include <gtest/gtest.h>

#include "client/session.h"
#include "dataplane/testing/thread_shortage.h"

namespace rdmabroker::client {
namespace {

TEST(WithoutThreads, OpeningASessionIsRefusedAndMayBeTriedAgain) {
  const ThreadShortage shortage;
  const Session::Opening opening = Session::Open({.control_socket = "/nowhere"});
  EXPECT_EQ(opening.outcome.status, NdkStatus::kInsufficientResources);
  EXPECT_TRUE(opening.outcome.retryable);
  EXPECT_FALSE(opening.outcome.hint.empty());
  EXPECT_EQ(opening.session, nullptr);
}

}  // namespace
}  // namespace rdmabroker::client
