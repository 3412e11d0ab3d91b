// SPDX-License-Identifier: Apache-2.0

// Peers that fall silent, on the device that the environment's RDMA_DEVICE names, which must reach itself: by a broker
// and the client library. As root, in a network that nobody else needs meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/fabric/rdmacm/testing/mpa_peers.h"
#include "client/blocking.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/side.h"
#include "tests/conformance/ndkpi/call.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/survive/disconnect_events.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

using ndkpi::Call;

constexpr absl::Duration kKeepalive = absl::Seconds(8);
// What a guest without KVM needs beyond that: four times what was measured on a busy machine.
constexpr absl::Duration kDelay = absl::Seconds(8);
// The broker's time for Accept.
constexpr absl::Duration kEstablish = absl::Seconds(5);
constexpr char kSoonOver[] = "timeouts.establish_ms = 5000";

class SilentDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    const SideOptions options = {.depth = kDepth, .keepalive = absl::ToChronoSeconds(kKeepalive)};
    // One for all: a guest takes seconds for each.
    if (shared_broker == nullptr) shared_broker = std::make_unique<KeptBroker>(kSoonOver);
    a_ = std::make_unique<LibraryClient>(shared_broker->control_socket(), device, options);
    b_ = std::make_unique<LibraryClient>(shared_broker->control_socket(), device, options);
    auto [listening, listener] = client::BlockingListener::Listen(b_->adapter, {b_->ip(), 0});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    listener_ = std::move(listener);
  }
  void TearDown() override {
    for (LibraryClient* const client : {a_.get(), b_.get()}) {
      if (client != nullptr && client->connector != nullptr) {
        client::BlockingClose(std::exchange(client->connector, nullptr));
      }
    }
  }
  static void TearDownTestSuite() { shared_broker = nullptr; }

  // a's handshake with b, as far as b's reply.
  void Reply() {
    std::promise<std::shared_ptr<client::Connector>> made;
    a_->adapter->CreateConnector(
        [&](const client::Outcome& /*outcome*/, const auto& connector) { made.set_value(connector); });
    a_->connector = made.get_future().get();
    ASSERT_NE(a_->connector, nullptr);
    const Call connect("Connect");
    connect.Returned(a_->connector->Connect(
        a_->side.qp, {.source = {a_->ip(), 0}, .destination = listener_->address(), .limits = {}, .private_data = {}},
        connect.completion()));
    b_->connector = listener_->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
    ASSERT_NE(b_->connector, nullptr);
    accept_.Returned(b_->connector->Accept(b_->side.qp, {}, at_b_.Note(), accept_.completion()));
    ASSERT_EQ(connect.Status(), NdkStatus::kSuccess) << connect.Wait().hint;
  }
  NdkStatus Complete() {
    const Call complete("CompleteConnect");
    complete.Returned(a_->connector->CompleteConnect(at_a_.Note(), complete.completion()));
    return complete.Status();
  }
  void Establish() {
    ASSERT_NO_FATAL_FAILURE(Reply());
    ASSERT_EQ(Complete(), NdkStatus::kSuccess);
    ASSERT_EQ(accept_.Status(), NdkStatus::kSuccess);
  }

  bool iwarp() const { return a_->side.adapter->info().technology == RdmaTechnology::kIwarp; }

  static constexpr uint32_t kDepth = 8;
  inline static std::unique_ptr<KeptBroker> shared_broker;
  DisconnectEvents at_a_, at_b_;
  std::unique_ptr<LibraryClient> a_, b_;
  std::unique_ptr<client::BlockingListener> listener_;
  const Call accept_{"Accept"};
};

// What b's host is to a when it has gone: on RoCE, whose devices speak with themselves past the network, a queue pair
// that is dead answers as little; on iWARP TCP speaks by the loopback interface, which can lose everything.
class Silence {
 public:
  Silence(bool iwarp, QueuePair* of_b) : iwarp_(iwarp) {
    if (!iwarp_) {
      of_b->Flush();
      return;
    }
    EXPECT_EQ(std::system("tc qdisc add dev lo root netem loss 100%"), 0);
  }
  ~Silence() {
    if (!iwarp_) return;
    EXPECT_EQ(std::system("tc qdisc del dev lo root"), 0);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  const bool iwarp_;
};

// One end, in time.
void ExpectDeath(const DisconnectEvents& events, absl::Time silent) {
  EXPECT_TRUE(Becomes([&] { return events.count() > 0; })) << "nobody has noticed";
  EXPECT_THAT(events.Statuses(), testing::ElementsAre(NdkStatus::kConnectionAborted));
  std::cout << "noticed after " << events.last() - silent << "\n";
  EXPECT_LE(events.last() - silent, kKeepalive + kDelay);
}

// Longer than the time; and the queue is as deep as it was asked for, whenever the library asks.
TEST_F(SilentDeviceTest, AnIdleConnectionStaysAndShowsNothingOfTheQuestions) {
  ASSERT_NO_FATAL_FAILURE(Establish());
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
    absl::SleepFor(kKeepalive / 4);
  }
  std::vector<Result> none(1);
  EXPECT_EQ(a_->side.cq->GetResults(none), 0u);
  EXPECT_EQ(b_->side.cq->GetResults(none), 0u);
  EXPECT_EQ(at_a_.count(), 0u);
  EXPECT_EQ(at_b_.count(), 0u);
}

class SilentHostTest : public SilentDeviceTest, public testing::WithParamInterface<bool> {};

TEST_P(SilentHostTest, AConnectionToItEndsOnce) {
  const bool established = GetParam();
  ASSERT_EQ(a_->side.qp->Receive(Context(7), {}), NdkStatus::kSuccess);
  if (established) {
    ASSERT_NO_FATAL_FAILURE(Establish());
    // What cannot be asked meanwhile is asked later.
    const DescriptorShortage shortage;
    absl::SleepFor(kKeepalive / 2);
  } else {
    ASSERT_NO_FATAL_FAILURE(Reply());
  }
  {
    const absl::Time silent = absl::Now();
    const Silence silence(iwarp(), b_->side.qp);
    // Nobody answers the last message.
    if (!established) {
      EXPECT_EQ(Complete(), NdkStatus::kSuccess);
    }
    ExpectDeath(at_a_, silent);
    if (iwarp()) ExpectDeath(at_b_, silent);
  }
  EXPECT_EQ(a_->side.Next().status, NdkStatus::kCancelled);
  client::BlockingDisconnect(a_->connector);
  EXPECT_EQ(at_a_.count(), 1u);
  EXPECT_LE(at_b_.count(), 1u);
  std::vector<Result> none(1);
  EXPECT_EQ(a_->side.cq->GetResults(none), 0u);
}

INSTANTIATE_TEST_SUITE_P(FallenSilent, SilentHostTest, testing::Bool(), [](const auto& established) {
  return established.param ? "WhileTheConnectionIsIdle" : "BeforeCompleteConnect";
});

// On RoCE one that does not complete; on iWARP one that owes the first frame, for which its kernel then waits.
TEST_F(SilentDeviceTest, AnAcceptWhosePeerSaysNothingMoreTimesOutAndHoldsUpNoSuccessor) {
  MpaPeers peers;
  const absl::Time silent = absl::Now();
  if (iwarp()) {
    ASSERT_NO_FATAL_FAILURE(peers.RequestReadyToReceive(listener_->address()));
    b_->connector = listener_->Next(absl::ToChronoMilliseconds(kTestPatience)).object;
    ASSERT_NE(b_->connector, nullptr);
    accept_.Returned(b_->connector->Accept(b_->side.qp, {}, at_b_.Note(), accept_.completion()));
  } else {
    ASSERT_NO_FATAL_FAILURE(Reply());
  }
  EXPECT_EQ(accept_.Status(), NdkStatus::kIoTimeout) << accept_.Wait().hint;
  std::cout << "given up after " << absl::Now() - silent << "\n";
  EXPECT_GE(absl::Now() - silent, kEstablish);
  EXPECT_LE(absl::Now() - silent, kEstablish + kDelay);
  EXPECT_EQ(at_b_.count(), 0u);
  for (int death = 0; death < 2; ++death) {
    shared_broker->KillDaemon();
    EXPECT_TRUE(client::BlockingListener::Listen(b_->adapter, {b_->ip(), 0}).outcome.ok()) << "no other daemon serves";
  }
  // Soft iWARP's kernel does not survive the end of a peer that owes it (cm_close_handler in
  // drivers/infiniband/core/iwcm.c).
  ASSERT_NO_FATAL_FAILURE(peers.SendReadyToReceive());
  const SocketAddress address = listener_->address();
  client::BlockingClose(std::exchange(b_->connector, nullptr));
  listener_ = nullptr;
  const auto listens = [&] { return client::BlockingListener::Listen(b_->adapter, address).outcome.ok(); };
  EXPECT_TRUE(Becomes(listens)) << "the connection that was given up stays on its listener's port";
}

}  // namespace
}  // namespace rdmabroker
