// SPDX-License-Identifier: Apache-2.0

// What a broker's damaged records cost the clients of a device: of the kernel's device that the environment's
// RDMA_DEVICE names and that must reach itself, as root; without it, of user-space iWARP.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "client/blocking.h"
#include "tests/control/patience.h"
#include "tests/survive/connected_pair.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

// Far from the broker's time for a Connect, a minute.
constexpr absl::Duration kAtOnce = absl::Seconds(20);
// What a guest without KVM needs beyond that.
constexpr absl::Duration kDelay = absl::Seconds(8);

// The connections keep their ports, which the next broker does not know.
TEST(LostRecords, CostTheSessionsButNoConnectionAndNoTimeOfOtherConnects) {
  const char* const named = std::getenv("RDMA_DEVICE");
  const char* const device = named == nullptr ? "iwarp0" : named;
  KeptBroker broker;
  ConnectedPair lost(broker, device);
  ASSERT_NO_FATAL_FAILURE(lost.Connect(0));
  std::promise<void> a_knows, b_knows;
  lost.a.connector->OnSessionEnd([&](NdkStatus) { a_knows.set_value(); });
  lost.b.connector->OnSessionEnd([&](NdkStatus) { b_knows.set_value(); });
  broker.KillDaemonAnd([&] { std::filesystem::resize_file(broker.folder() + "/state/records.mdb", 5000); });
  a_knows.get_future().get(), b_knows.get_future().get();
  ASSERT_NO_FATAL_FAILURE(lost.ExpectUntouched());
  // This one has records, and nothing of the connection in them.
  broker.KillDaemon();
  ConnectedPair another(broker, device);
  const absl::Time before = absl::Now();
  ASSERT_NO_FATAL_FAILURE(another.Connect(lost.address.port));
  EXPECT_LT(absl::Now() - before, kAtOnce);
  another.ExpectUntouched();
  ASSERT_NO_FATAL_FAILURE(lost.ExpectUntouched());

  // Over user-space iWARP it ends with the peer's own.
  std::thread ending([&] { EXPECT_TRUE(client::BlockingDisconnect(lost.a.connector).ok()); });
  EXPECT_TRUE(Becomes([&] { return lost.at_b.count() > 0; }, ConnectedPair::kKeepalive + kDelay))
      << "nobody has noticed";
  EXPECT_TRUE(client::BlockingDisconnect(lost.b.connector).ok());
  ending.join();
  EXPECT_EQ(lost.at_a.count(), 0u) << "it has ended the connection itself";
  EXPECT_EQ(lost.at_b.count(), 1u);
  another.ExpectUntouched();
  lost.Close(), another.Close();
}

}  // namespace
}  // namespace rdmabroker
