// SPDX-License-Identifier: Apache-2.0

// A thousand clients at once: nobody is told that anything went wrong, and nobody waits much longer than the others.

#include <gtest/gtest.h>

#include <iostream>

#include "tests/integration/own_namespaces.h"
#include "tests/survive/crowd.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

constexpr size_t kClients = 1000;

class StormTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(EnterOwnNamespaces(), ""); }

  // Where all are served in turn, the last one waits twice as long as the median. TCP's second try after a loss, which
  // a queue that overflows makes of some, comes after a second, the third one two seconds later.
  static void ExpectNobodyStarves(const Durations& durations, const char* what) {
    std::cout << what << ": " << Text(durations) << "\n";
    ASSERT_EQ(durations.sorted.size(), kClients);
    EXPECT_LT(durations.slowest(), 5 * durations.median() + absl::Seconds(2));
  }

  KeptBroker broker_;
  Crowd crowd_{broker_.control_socket(), kClients, "127.0.0.1"};
};

TEST_F(StormTest, AThousandClientsConnectToOneListenerAtOnce) {
  ExpectNobodyStarves(crowd_.Connect(), "connected");
  ExpectNobodyStarves(crowd_.Connect(), "connected once more");
  EXPECT_EQ(crowd_.Losses(), 0);
}

TEST_F(StormTest, AThousandClientsReturnAtOnce) {
  ExpectNobodyStarves(crowd_.Connect(), "connected");
  for (int death = 0; death < 2; ++death) {
    const absl::Duration killed = Crowd::Now();
    broker_.KillDaemon();
    ExpectNobodyStarves(crowd_.Ask(killed), "answered after a death");
  }
  ExpectNobodyStarves(crowd_.Connect(), "connected once more");
  EXPECT_EQ(crowd_.Losses(), 0);
}

}  // namespace
}  // namespace rdmabroker
