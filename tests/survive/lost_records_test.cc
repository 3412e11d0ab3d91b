// SPDX-License-Identifier: Apache-2.0

// What a broker's damaged records cost the clients of a device: of the kernel's device that the environment's
// RDMA_DEVICE names and that must reach itself, as root; without it, of user-space iWARP.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "client/blocking.h"
#include "dataplane/testing/side.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/survive/disconnect_events.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

constexpr absl::Duration kKeepalive = absl::Seconds(8);
// Far from the broker's time for a Connect, a minute.
constexpr absl::Duration kAtOnce = absl::Seconds(20);
// What a guest without KVM needs beyond that.
constexpr absl::Duration kDelay = absl::Seconds(8);

// Two clients of one broker.
struct Pair {
  Pair(RunningBroker& broker, const std::string& device)
      : a(broker.control_socket(), device, {.keepalive = absl::ToChronoSeconds(kKeepalive)}),
        b(broker.control_socket(), device, {.keepalive = absl::ToChronoSeconds(kKeepalive)}) {}

  // Port 0: any.
  void Connect(uint16_t port) {
    auto [listening, listener] = client::BlockingListener::Listen(b.adapter, {b.ip(), port});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    address = listener->address();
    client::Outcome accepted;
    std::thread accepting([&, from = listener.get()] { accepted = b.Accept(*from, at_b.Note()); });
    const client::Outcome connected = a.Connect(a.ip(), address, at_a.Note());
    accepting.join();
    ASSERT_TRUE(connected.ok()) << connected.hint;
    ASSERT_TRUE(accepted.ok()) << accepted.hint;
  }
  void ExpectUntouched() {
    ASSERT_EQ(b.side.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(a.side.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a.side.Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(b.side.Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(at_a.count(), 0u);
    EXPECT_EQ(at_b.count(), 0u);
  }
  void Close() {
    for (LibraryClient* const client : {&a, &b}) client::BlockingClose(std::exchange(client->connector, nullptr));
  }

  DisconnectEvents at_a, at_b;
  LibraryClient a, b;
  SocketAddress address;
};

// The connections keep their ports, which the next broker does not know.
TEST(LostRecords, CostTheSessionsButNoConnectionAndNoTimeOfOtherConnects) {
  const char* const named = std::getenv("RDMA_DEVICE");
  const char* const device = named == nullptr ? "iwarp0" : named;
  KeptBroker broker;
  Pair lost(broker, device);
  ASSERT_NO_FATAL_FAILURE(lost.Connect(0));
  std::promise<void> a_knows, b_knows;
  lost.a.connector->OnSessionEnd([&](NdkStatus) { a_knows.set_value(); });
  lost.b.connector->OnSessionEnd([&](NdkStatus) { b_knows.set_value(); });
  broker.KillDaemonAnd([&] { std::filesystem::resize_file(broker.folder() + "/state/records.mdb", 5000); });
  a_knows.get_future().get(), b_knows.get_future().get();
  ASSERT_NO_FATAL_FAILURE(lost.ExpectUntouched());
  // This one has records, and nothing of the connection in them.
  broker.KillDaemon();
  Pair another(broker, device);
  const absl::Time before = absl::Now();
  ASSERT_NO_FATAL_FAILURE(another.Connect(lost.address.port));
  EXPECT_LT(absl::Now() - before, kAtOnce);
  another.ExpectUntouched();
  ASSERT_NO_FATAL_FAILURE(lost.ExpectUntouched());

  // Over user-space iWARP it ends with the peer's own.
  std::thread ending([&] { EXPECT_TRUE(client::BlockingDisconnect(lost.a.connector).ok()); });
  EXPECT_TRUE(Becomes([&] { return lost.at_b.count() > 0; }, kKeepalive + kDelay)) << "nobody has noticed";
  EXPECT_TRUE(client::BlockingDisconnect(lost.b.connector).ok());
  ending.join();
  EXPECT_EQ(lost.at_a.count(), 0u) << "it has ended the connection itself";
  EXPECT_EQ(lost.at_b.count(), 1u);
  another.ExpectUntouched();
  lost.Close(), another.Close();
}

}  // namespace
}  // namespace rdmabroker
