// SPDX-License-Identifier: Apache-2.0

// Peers that fall silent, on the device that the environment's RDMA_DEVICE names, which must reach itself: by a broker
// and the client library. As root, in a network that nobody else needs meanwhile.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/blocking.h"
#include "dataplane/testing/side.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/integration/running_broker.h"
#include "tests/survive/disconnect_events.h"

namespace rdmabroker {
namespace {

constexpr absl::Duration kKeepalive = absl::Seconds(2);
// What a guest without KVM needs beyond that, and TCP where the kernel has it.
constexpr absl::Duration kDelay = absl::Seconds(15);
// Of TCP to give a connection up: after some 3 seconds.
constexpr char kRetries[] = "/proc/sys/net/ipv4/tcp_retries2";

class SilentDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    const SideOptions options = {.depth = kDepth, .keepalive = absl::ToChronoSeconds(kKeepalive)};
    // One for all: a guest takes seconds for each.
    if (broker_ == nullptr) broker_ = std::make_unique<RunningBroker>();
    a_ = std::make_unique<LibraryClient>(broker_->control_socket(), device, options);
    b_ = std::make_unique<LibraryClient>(broker_->control_socket(), device, options);
    auto [listening, listener] = client::BlockingListener::Listen(b_->adapter, {b_->ip(), 0});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    client::Outcome accepted;
    std::thread accepting([&, from = listener.get()] { accepted = b_->Accept(*from, at_b_.Note()); });
    const client::Outcome connected = a_->Connect(a_->ip(), listener->address(), at_a_.Note());
    accepting.join();
    ASSERT_TRUE(connected.ok()) << connected.hint;
    ASSERT_TRUE(accepted.ok()) << accepted.hint;
  }
  void TearDown() override {
    for (LibraryClient* const client : {a_.get(), b_.get()}) {
      if (client != nullptr && client->connector != nullptr) {
        client::BlockingClose(std::exchange(client->connector, nullptr));
      }
    }
  }
  static void TearDownTestSuite() { broker_ = nullptr; }
  bool iwarp() const { return a_->side.adapter->info().technology == RdmaTechnology::kIwarp; }

  static constexpr uint32_t kDepth = 8;
  inline static std::unique_ptr<RunningBroker> broker_;
  DisconnectEvents at_a_, at_b_;
  std::unique_ptr<LibraryClient> a_, b_;
};

// Longer than the time; and the queue is as deep as it was asked for, whenever the library asks.
TEST_F(SilentDeviceTest, AnIdleConnectionStaysAndShowsNothingOfTheQuestions) {
  for (LibraryClient* const client : {a_.get(), b_.get()}) client->side.cq->Arm(CqNotify::kAny);
  absl::SleepFor(kKeepalive * 5 / 4);
  for (LibraryClient* const client : {a_.get(), b_.get()}) EXPECT_EQ(client->side.notifications, 0);
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    for (uintptr_t i = 0; i < kDepth; ++i) {
      ASSERT_EQ(a_->side.qp->Write(Context(i), {}, {}, 0), NdkStatus::kSuccess);
    }
    const std::vector<ResultEx> results = a_->side.Results(kDepth);
    for (uintptr_t i = 0; i < kDepth; ++i) {
      EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
      EXPECT_EQ(results[i].request_context, Context(i));
    }
    absl::SleepFor(kKeepalive / 3);
  }
  std::vector<Result> none(1);
  EXPECT_EQ(a_->side.cq->GetResults(none), 0u);
  EXPECT_EQ(b_->side.cq->GetResults(none), 0u);
  EXPECT_EQ(at_a_.count(), 0u);
  EXPECT_EQ(at_b_.count(), 0u);
}

// What b's host is to a when it has gone: on RoCE, whose devices speak with themselves past the network, a queue pair
// that is dead answers as little; on iWARP TCP speaks by the loopback interface, which can lose everything.
TEST_F(SilentDeviceTest, AnIdleConnectionEndsOnce) {
  ASSERT_EQ(a_->side.qp->Receive(Context(7), {}), NdkStatus::kSuccess);
  std::string retries;
  if (iwarp()) {
    std::ifstream(kRetries) >> retries;
    std::ofstream(kRetries) << "3";
    ASSERT_EQ(std::system("tc qdisc add dev lo root netem loss 100%"), 0);
  } else {
    b_->side.qp->Flush();
  }
  EXPECT_TRUE(Becomes([this] { return at_a_.count() > 0; }, kKeepalive + kDelay)) << "nobody has noticed";
  if (iwarp()) {
    EXPECT_TRUE(Becomes([this] { return at_b_.count() > 0; }, kKeepalive + kDelay)) << "nobody has noticed";
    EXPECT_EQ(std::system("tc qdisc del dev lo root"), 0);
    std::ofstream(kRetries) << retries;
  }
  EXPECT_EQ(a_->side.Next().status, NdkStatus::kCancelled);
  client::BlockingDisconnect(a_->connector);
  EXPECT_EQ(at_a_.count(), 1u);
  EXPECT_LE(at_b_.count(), 1u);
  std::vector<Result> none(1);
  EXPECT_EQ(a_->side.cq->GetResults(none), 0u);
}

}  // namespace
}  // namespace rdmabroker
