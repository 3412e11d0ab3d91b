// SPDX-License-Identifier: Apache-2.0

// Many clients at once: nobody is told that anything went wrong, and nobody waits much longer than the others. A
// thousand over user-space iWARP; or as many as a guest bears, over the device that the environment's RDMA_DEVICE
// names.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/integration/own_namespaces.h"
#include "tests/survive/crowd.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

struct Storm {
  size_t clients;
  const char* ip;
  std::string device;
};

const Storm& TheStorm() {
  static const auto* const kStorm = [] {
    const char* const device = std::getenv("RDMA_DEVICE");
    return device == nullptr ? new Storm{1000, "127.0.0.1", "iwarp0"} : new Storm{200, "10.77.0.1", device};
  }();
  return *kStorm;
}

class StormTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TheStorm().device == "iwarp0") {
      ASSERT_EQ(EnterOwnNamespaces(), "");
    }
  }

  void TearDown() override { EXPECT_EQ(Overflows(), overflows_) << "a listener's queue has overflowed"; }

  // Connections that the kernel has dropped as a listener's queue was full (TcpExt's ListenOverflows in netstat(8)), in
  // this network namespace.
  static std::string Overflows() {
    std::ifstream file("/proc/net/netstat");
    std::string names, values;
    while (std::getline(file, names) && std::getline(file, values)) {
      std::istringstream name(names), value(values);
      for (std::string key, number; name >> key && value >> number;) {
        if (key == "ListenOverflows") return number;
      }
    }
    ADD_FAILURE() << "the kernel does not count overflows";
    return "";
  }

  // Where all are served in turn, the last one waits twice as long as the median.
  static void ExpectNobodyStarves(const Durations& durations, const char* what) {
    std::cout << what << ": " << Text(durations) << "\n";
    ASSERT_EQ(durations.sorted.size(), TheStorm().clients);
    EXPECT_LT(durations.slowest(), 5 * durations.median() + absl::Seconds(2));
  }

  const std::string overflows_ = Overflows();
  KeptBroker broker_;
  Crowd crowd_{broker_.control_socket(), TheStorm().clients, TheStorm().ip, TheStorm().device};
};

TEST_F(StormTest, AllClientsConnectToOneListenerAtOnce) {
  ExpectNobodyStarves(crowd_.Connect(), "connected");
  ExpectNobodyStarves(crowd_.Connect(), "connected once more");
  EXPECT_EQ(crowd_.Losses(), 0);
}

TEST_F(StormTest, AllClientsReturnAtOnce) {
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
