// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/progress_thread.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/timers.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::iwarp {
namespace {

// A queue pair without requests: it has something to do when it is told so, and pollers when its count says so.
class IdleQueuePair final : public DrivenQueuePair {
 public:
  explicit IdleQueuePair(std::function<uint64_t()> poll_count) : poll_count_(std::move(poll_count)) {}

  void Drive() override {
    ++visits;
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (lock.owns_lock()) ++drives;
  }
  void OnReady() override {
    ++visits;
    const std::lock_guard lock(mutex);
    ++drives;
  }
  void OnLeftToPollers() override {}
  void OnArm() override {}
  uint64_t poll_count() const override { return poll_count_(); }
  uint32_t events() const override { return EPOLLIN; }
  bool notification_wanted() const override { return false; }

  NdkStatus Send(void*, std::span<const Sge>, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus SendAndInvalidate(void*, std::span<const Sge>, OpFlags, RemoteToken) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus Receive(void*, std::span<const Sge>) override { return NdkStatus::kNotSupported; }
  NdkStatus Read(void*, std::span<const Sge>, RemoteMemory, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Write(void*, std::span<const Sge>, RemoteMemory, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Bind(void*, MemoryRegion*, MemoryWindow*, void*, size_t, OpFlags) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus FastRegister(void*, MemoryRegion*, std::span<void* const>, size_t, size_t, uint64_t, OpFlags) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus Invalidate(void*, MemoryRegion*, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Invalidate(void*, MemoryWindow*, OpFlags) override { return NdkStatus::kNotSupported; }
  void Flush() override {}
  NdkStatus Attach(Attachment, ConnectionEndCallback) override { return NdkStatus::kNotSupported; }
  NdkStatus Disconnect(std::chrono::milliseconds, RequestCompletion) override { return NdkStatus::kNotSupported; }
  uint32_t number() const override { return 0; }
  const Adapter* adapter() const override { return nullptr; }

  std::mutex mutex;  // What the connection lock is to a real one.
  std::atomic<int> visits = 0;
  std::atomic<int> drives = 0;

 private:
  const std::function<uint64_t()> poll_count_;
};

// A queue pair that is watched by the progress thread, and its socket, which is readable from Tell on.
class Watched {
 public:
  explicit Watched(std::function<uint64_t()> poll_count)
      : queue_pair(new IdleQueuePair(std::move(poll_count))), socket_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    EXPECT_TRUE(ProgressThread::Get().Start());
    handle = ProgressThread::Get().Watch(queue_pair, socket_.get(), EPOLLIN);
    EXPECT_NE(handle, 0u);
  }
  ~Watched() {
    ProgressThread::Get().Unwatch(handle);
    CloseAndWait(queue_pair);
  }
  void Tell() { ASSERT_EQ(::eventfd_write(socket_.get(), 1), 0); }

  IdleQueuePair* const queue_pair;
  uint64_t handle = 0;

 private:
  const UniqueFd socket_;
};

TEST(ProgressThread, AWakeIsNotLostOnAQueuePairThatAnotherThreadIsAt) {
  Watched watched([] { return 0; });
  IdleQueuePair& queue_pair = *watched.queue_pair;
  {
    // The other thread has looked for work already and does not look again.
    const std::lock_guard lock(queue_pair.mutex);
    ProgressThread::Get().Call(queue_pair.wake());
    ASSERT_TRUE(Eventually([&] { return queue_pair.visits > 0; }));
  }
  EXPECT_TRUE(Eventually([&] { return queue_pair.drives > 0; }));
}

// Counts how often its timer has run.
class Timed final : public DataObject {
 public:
  std::atomic<int> runs = 0;
  Timer timer{this, [this] { ++runs; }};
};

TEST(ProgressThread, ATimerRunsThoughOneBeforeItWasTakenBackOrPutOff) {
  using std::chrono_literals::operator""ms;
  ASSERT_TRUE(ProgressThread::Get().Start());
  for (const bool put_off : {false, true}) {
    auto* const early = new Timed;
    auto* const late = new Timed;
    const auto now = ProgressThread::Clock::now();
    ProgressThread::Get().SetTimer(&early->timer, now + 20ms);
    ProgressThread::Get().SetTimer(&late->timer, now + 40ms);
    ProgressThread::Get().SetTimer(&early->timer, put_off ? std::optional(now + 60ms) : std::nullopt);
    EXPECT_TRUE(Eventually([&] { return late->runs == 1; }));
    EXPECT_TRUE(Eventually([&] { return early->runs == (put_off ? 1 : 0); }));
    CloseAndWait(early), CloseAndWait(late);
  }
}

TEST(ProgressThread, ASocketThatIsPolledIsLeftAloneHoweverOftenItWasResumed) {
  ProgressThread& thread = ProgressThread::Get();
  // Is asked for its polls once in each look at the polled sockets, and has been polled each time.
  std::atomic<uint64_t> looks = 0;
  Watched clock([&] { return ++looks; });
  clock.Tell();
  ASSERT_TRUE(Eventually([&] { return looks > 3; }));
  // Has been polled whenever it is asked; later on, once between two looks.
  std::atomic<uint64_t> asked = 0;
  std::atomic<bool> once = false;
  Watched watched([&] { return once ? (uint64_t{1} << 32) + looks : ++asked; });
  watched.Tell();
  ASSERT_TRUE(Eventually([&] { return asked > 1; }));
  // Between two rounds of the thread, so that the next one finds the socket readable before it looks at the polls.
  std::atomic<int> rounds = 0;
  std::function<void()> resume = [&] {
    if (++rounds > 3) {
      once = true;
      return;
    }
    thread.Resume(watched.handle);
    RunOnProgressThread(resume);
  };
  RunOnProgressThread(resume);
  ASSERT_TRUE(Eventually([&] { return once.load(); }));
  const uint64_t now = looks;
  ASSERT_TRUE(Eventually([&] { return looks > now + 3; }));
  EXPECT_EQ(watched.queue_pair->visits, 0);
}

}  // namespace
}  // namespace rdmabroker::iwarp
