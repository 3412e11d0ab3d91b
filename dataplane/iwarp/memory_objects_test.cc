// SPDX-License-Identifier: Apache-2.0

// Regions and windows whose binding or registration is refused, waits its turn, or never comes to it.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/side_for_test.h"

namespace rdmabroker::iwarp {
namespace {

// Waits until the progress thread has called everything that was due, and let go of it.
void SettleCallbacks() {
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> called = false;
    RunOnProgressThread([&] { called = true; });
    ASSERT_TRUE(Eventually([&] { return called.load(); }));
  }
}

// A registered region whose close can be watched.
class Region {
 public:
  explicit Region(ProtectionDomain* domain) : object(domain->CreateMemoryRegion(false).object) { Register(); }
  ~Region() {
    Close();
    EXPECT_TRUE(Eventually([this] { return closed.load(); }));
  }
  void Register() { EXPECT_EQ(object->Register(bytes.data(), bytes.size(), kAllAccess), NdkStatus::kSuccess); }
  NdkStatus Close() {
    if (object == nullptr) return NdkStatus::kSuccess;
    const NdkStatus status = std::exchange(object, nullptr)->Close([this] { closed = true; });
    if (status == NdkStatus::kSuccess) closed = true;
    return status;
  }

  std::vector<uint8_t> bytes = std::vector<uint8_t>(64);
  MemoryRegion* object;
  std::atomic<bool> closed = false;
};

// One for fast-registering a page.
class FastRegion {
 public:
  explicit FastRegion(ProtectionDomain* domain) : object(domain->CreateMemoryRegion(true).object) {
    EXPECT_EQ(object->InitializeFastRegister(1, true), NdkStatus::kSuccess);
  }
  ~FastRegion() { CloseAndWait(object); }
  NdkStatus PostTo(QueuePair* qp, OpFlags flags = 0) {
    void* const pages[] = {page_.data()};
    return qp->FastRegister(nullptr, object, pages, 0, page_.size(), 0, flags | kOpAllowRemoteRead);
  }

  MemoryRegion* const object;

 private:
  std::vector<uint8_t> page_ = std::vector<uint8_t>(kFastRegisterPageSize);
};

// A side whose peer answers nothing at first, so that what follows a read can be kept waiting.
class Unanswered : public testing::Test {
 protected:
  Unanswered() {
    const std::string state = EncodeConnectionState(StatesFor().active);
    EXPECT_EQ(side.qp->Attach({std::move(pair.active), state}, {}), NdkStatus::kSuccess);
    EXPECT_EQ(another->Attach({std::move(another_pair.active), state}, {}), NdkStatus::kSuccess);
  }
  ~Unanswered() override { CloseAndWait(another); }

  void Read() { ASSERT_EQ(side.qp->Read(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess); }
  void Answer() { ASSERT_EQ(peer.Attach(std::move(pair.passive), StatesFor().passive), NdkStatus::kSuccess); }
  NdkStatus Bind(Region& region, OpFlags flags = 0) {
    return side.qp->Bind(nullptr, region.object, window, region.bytes.data(), region.bytes.size(),
                         flags | kOpAllowRemoteWrite);
  }
  // One that is carried out, and leaves nothing behind but the binding.
  void BindAtOnce(Region& region) {
    ASSERT_EQ(Bind(region), NdkStatus::kSuccess);
    ASSERT_EQ(side.Next().status, NdkStatus::kSuccess);
    SettleCallbacks();
  }

  // Ends the connection, and with it so many requests.
  void Flush(size_t requests) {
    side.qp->Flush();
    for (const ResultEx& result : side.Results(requests)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
  }

  static constexpr uint32_t kDepth = 4;
  TcpPair pair = ConnectTcpPair();
  Side side{{.depth = kDepth}};
  Side peer;
  TcpPair another_pair = ConnectTcpPair();
  QueuePair* const another = side.NewQueuePair({}, nullptr);  // Connected, too.
  Region first{side.domain};
  Region second{side.domain};
  MemoryWindow* window = side.domain->CreateMemoryWindow().object;
};

struct Refusal {
  const char* name;
  bool full;  // The queue is.
  OpFlags flags;
  NdkStatus status;
};

class Refused : public Unanswered, public testing::WithParamInterface<Refusal> {
 protected:
  void Prepare() {
    if (!GetParam().full) return;
    for (uint32_t i = 0; i < kDepth; ++i) Read();
  }
};

TEST_P(Refused, ABindLeavesTheWindowBoundAsItWas) {
  BindAtOnce(first);
  const RemoteToken token = window->remote_token();
  Prepare();
  EXPECT_EQ(Bind(second, GetParam().flags), GetParam().status);
  EXPECT_EQ(window->remote_token(), token);
  EXPECT_EQ(first.Close(), NdkStatus::kPending) << "the peer may still write into it";
  Answer();
  ASSERT_TRUE(Eventually([&] { return side.qp->Invalidate(nullptr, window, 0) == NdkStatus::kSuccess; }));
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return first.closed.load(); })) << "nobody can write into it any more";
  CloseAndWait(window);
}

TEST_P(Refused, AFastRegisterLeavesTheRegionRegisteredAsItWas) {
  FastRegion region(side.domain);
  ASSERT_EQ(region.PostTo(side.qp), NdkStatus::kSuccess);
  ASSERT_EQ(side.Next().status, NdkStatus::kSuccess);
  const RemoteToken token = region.object->remote_token();
  Prepare();
  EXPECT_EQ(region.PostTo(side.qp, GetParam().flags), GetParam().status);
  EXPECT_EQ(region.object->remote_token(), token);
  Answer();
  ASSERT_TRUE(Eventually([&] { return side.qp->Invalidate(nullptr, region.object, 0) == NdkStatus::kSuccess; }));
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  CloseAndWait(window);
}

INSTANTIATE_TEST_SUITE_P(Posts, Refused,
                         testing::Values(Refusal{"with_unknown_flags", false, 0x8000, NdkStatus::kInvalidParameter},
                                         Refusal{"by_a_full_queue", true, 0, NdkStatus::kInsufficientResources}),
                         [](const auto& refusal) { return refusal.param.name; });

TEST_F(Unanswered, AWindowHoldsItsRegionUntilItsNextBindIsCarriedOut) {
  BindAtOnce(first);
  const RemoteToken before = window->remote_token();
  Read();
  ASSERT_EQ(Bind(second, kOpReadFence), NdkStatus::kSuccess);
  EXPECT_NE(window->remote_token(), before);
  EXPECT_EQ(first.Close(), NdkStatus::kPending) << "the peer may still write into it";
  SettleCallbacks();
  EXPECT_FALSE(first.closed);
  Answer();
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return first.closed.load(); }));
  EXPECT_EQ(second.object->Deregister(), NdkStatus::kDeviceBusy);
  CloseAndWait(window);
}

TEST_F(Unanswered, ABindFailsIfItsRegionWasRegisteredAnewMeanwhile) {
  Read();
  ASSERT_EQ(Bind(first, kOpReadFence), NdkStatus::kSuccess);
  ASSERT_EQ(first.object->Deregister(), NdkStatus::kSuccess);
  first.Register();
  Answer();
  EXPECT_EQ(side.Next().status, NdkStatus::kInvalidDeviceRequest) << "it was made for the memory of before";
  CloseAndWait(window);
}

TEST_F(Unanswered, AFastRegisterFailsIfItsRegionWasDeregisteredMeanwhile) {
  FastRegion region(side.domain);
  Read();
  ASSERT_EQ(region.PostTo(side.qp, kOpReadFence), NdkStatus::kSuccess);
  ASSERT_EQ(region.object->Deregister(), NdkStatus::kSuccess);
  ASSERT_EQ(region.object->InitializeFastRegister(1, true), NdkStatus::kSuccess);
  Answer();
  EXPECT_EQ(side.Next().status, NdkStatus::kInvalidDeviceRequest) << "its pages may be in use for something else";
  CloseAndWait(window);
}

TEST_F(Unanswered, ABindIsCarriedOutThoughItsRegionWillBeRegisteredAnew) {
  FastRegion region(side.domain);
  ASSERT_EQ(region.PostTo(side.qp), NdkStatus::kSuccess);
  ASSERT_EQ(side.Next().status, NdkStatus::kSuccess);
  Read();
  ASSERT_EQ(side.qp->Bind(nullptr, region.object, window, nullptr, 1, kOpAllowRemoteRead | kOpReadFence),
            NdkStatus::kSuccess);
  ASSERT_EQ(side.qp->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
  ASSERT_EQ(region.PostTo(side.qp), NdkStatus::kSuccess);
  Answer();
  for (const ResultEx& result : side.Results(3)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
  CloseAndWait(window);
}

TEST_F(Unanswered, ABindThatIsCancelledLeavesTheWindowBoundAsItWas) {
  BindAtOnce(first);
  const RemoteToken token = window->remote_token();
  Read();
  ASSERT_EQ(Bind(second, kOpReadFence), NdkStatus::kSuccess);
  Flush(2);
  EXPECT_EQ(window->remote_token(), token);
  ASSERT_EQ(another->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  CloseAndWait(window);
}

TEST_F(Unanswered, AFirstBindThatIsCancelledLeavesTheWindowUnbound) {
  Read();
  ASSERT_EQ(Bind(first, kOpReadFence), NdkStatus::kSuccess);
  Flush(2);
  EXPECT_EQ(another->Invalidate(nullptr, window, 0), NdkStatus::kInvalidDeviceRequest);
  CloseAndWait(window);
}

TEST_F(Unanswered, AFastRegisterThatIsCancelledLeavesTheRegionRegisteredAsItWas) {
  FastRegion region(side.domain);
  ASSERT_EQ(region.PostTo(side.qp), NdkStatus::kSuccess);
  ASSERT_EQ(side.Next().status, NdkStatus::kSuccess);
  const RemoteToken token = region.object->remote_token();
  Read();
  ASSERT_EQ(region.PostTo(side.qp, kOpReadFence), NdkStatus::kSuccess);
  Flush(2);
  EXPECT_EQ(region.object->remote_token(), token);
  ASSERT_EQ(another->Invalidate(nullptr, region.object, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  CloseAndWait(window);
}

// Where a window or a request lets go of a region, locks are held that the consumer's callback might need, too.
TEST_F(Unanswered, ARegionThatOthersHeldIsClosedOnTheProgressThread) {
  std::promise<std::thread::id> progress_thread;
  RunOnProgressThread([&] { progress_thread.set_value(std::this_thread::get_id()); });
  const std::thread::id expected = progress_thread.get_future().get();
  Answer();
  constexpr int kRounds = 500;  // Any of the first ten showed a copy that stayed with the caller.
  for (int round = 0; round < kRounds; ++round) {
    MemoryWindow* const bound = side.domain->CreateMemoryWindow().object;
    Region region(side.domain);
    ASSERT_EQ(side.qp->Bind(nullptr, region.object, bound, region.bytes.data(), 1, kOpAllowRemoteRead),
              NdkStatus::kSuccess);
    std::promise<std::thread::id> closed_by;
    MemoryRegion* const closing = std::exchange(region.object, nullptr);
    region.closed = true;
    const NdkStatus status = closing->Close([&] { closed_by.set_value(std::this_thread::get_id()); });
    ASSERT_EQ(status, NdkStatus::kPending) << "the window is bound to it";
    CloseAndWait(bound);
    ASSERT_EQ(closed_by.get_future().get(), expected) << "in round " << round;
    ASSERT_EQ(side.Next().status, NdkStatus::kSuccess);
  }
  CloseAndWait(window);
}

}  // namespace
}  // namespace rdmabroker::iwarp
