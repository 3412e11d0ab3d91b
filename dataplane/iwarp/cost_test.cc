// SPDX-License-Identifier: Apache-2.0

// What polls and messages cost, in counts: allocations, and system calls on sockets, whose functions this file has in
// place of the C library.

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/allocation_count.h"

namespace {
thread_local uint64_t socket_calls = 0;
// Of all threads.
std::atomic<uint64_t> epoll_changes = 0;
}  // namespace

extern "C" {
ssize_t recv(int fd, void* bytes, size_t length, int flags) {
  ++socket_calls;
  return ::syscall(SYS_recvfrom, fd, bytes, length, flags, nullptr, nullptr);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  ++socket_calls;
  return ::syscall(SYS_recvmsg, fd, message, flags);
}
int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  ++socket_calls;
  return static_cast<int>(::syscall(SYS_epoll_pwait, fd, events, most, timeout, nullptr, 8));
}
int epoll_ctl(int fd, int change, int of, epoll_event* event) {
  ++epoll_changes;
  return static_cast<int>(::syscall(SYS_epoll_ctl, fd, change, of, event));
}
}

namespace rdmabroker::iwarp {
namespace {

// A side whose completion queue has further queue pairs, each connected to one of another such side.
class Crowd {
 public:
  explicit Crowd(size_t others) : a({.depth = kDepth, .srq = true}), b({.depth = kDepth, .srq = true}) {
    Connect(a, b);
    for (size_t i = 0; i < others; ++i) {
      const Connected pair = {a.NewQueuePair({.depth = kDepth}, nullptr), b.NewQueuePair({.depth = kDepth}, nullptr)};
      TcpPair sockets = ConnectTcpPair();
      const States states = StatesFor();
      EXPECT_EQ(pair.a->Attach({std::move(sockets.active), EncodeConnectionState(states.active)}, {}),
                NdkStatus::kSuccess);
      EXPECT_EQ(pair.b->Attach({std::move(sockets.passive), EncodeConnectionState(states.passive)}, {}),
                NdkStatus::kSuccess);
      others_.push_back(pair);
    }
  }
  ~Crowd() {
    for (const Connected& pair : others_) CloseAndWait(pair.a), CloseAndWait(pair.b);
  }

  std::vector<QueuePair*> QueuePairsOfA() const {
    std::vector<QueuePair*> all = {a.qp};
    for (const Connected& pair : others_) all.push_back(pair.a);
    return all;
  }

  static constexpr uint32_t kDepth = 64;
  Side a, b;

 private:
  struct Connected {
    QueuePair *a, *b;
  };
  std::vector<Connected> others_;
};

// With so many connections.
class Cost : public testing::TestWithParam<size_t> {};

uint64_t CallsOfAnEmptyPoll(CompletionQueue* cq) {
  std::array<ResultEx, 16> results;
  const uint64_t before = socket_calls;
  EXPECT_EQ(cq->GetResultsEx(results), 0u);
  return socket_calls - before;
}

TEST_P(Cost, AnEmptyPollAsksTheKernelOnce) {
  Crowd crowd(GetParam() - 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(CallsOfAnEmptyPoll(crowd.a.cq), 1u);
}

TEST_P(Cost, AMessageAllocatesNothingAndChangesNoEpollSetOnceTheQueuesHaveTheirSize) {
  Crowd crowd(GetParam() - 1);
  Buffer from(crowd.a.domain, 64 * 1024, kMrAllowLocalWrite | kAllAccess, 1);
  Buffer to(crowd.b.domain, 64 * 1024, kMrAllowLocalWrite | kAllAccess);
  std::array<ResultEx, 4> results;
  const std::vector<QueuePair*> senders = crowd.QueuePairsOfA();
  const auto exchange = [&](size_t length) {
    for (QueuePair* const sender : senders) {
      const Sge own = from.sge(0, length), others = to.sge(0, length);
      ASSERT_EQ(crowd.b.srq->Receive(nullptr, {&others, 1}), NdkStatus::kSuccess);
      ASSERT_EQ(sender->Write(nullptr, {&own, 1}, to.remote(), 0), NdkStatus::kSuccess);
      ASSERT_EQ(sender->Read(nullptr, {&own, 1}, to.remote(), 0), NdkStatus::kSuccess);
      ASSERT_EQ(sender->Send(nullptr, {&own, 1}, 0), NdkStatus::kSuccess);
      // The read's response needs the other side's polls.
      size_t got_a = 0, got_b = 0;
      while (got_a < 3 || got_b < 1) {
        got_a += crowd.a.cq->GetResultsEx(results);
        got_b += crowd.b.cq->GetResultsEx(results);
      }
    }
  };
  const auto rounds = [&] {
    for (int i = 0; i < 20; ++i) {
      for (const size_t length : {0, 64, 4096, 64 * 1024}) exchange(length);
    }
  };
  // Besides messages, the progress thread may need memory and change its epoll set: once for each connection that it
  // leaves to pollers.
  EXPECT_TRUE(Eventually([&] {
    const uint64_t allocations = AllocationCount(), changes = epoll_changes;
    rounds();
    return AllocationCount() == allocations && epoll_changes == changes;
  }));
}

// More than sockets hold, in all connections at a time: none may wait for a poll that does not come.
TEST_P(Cost, LongWritesOfAllConnectionsEndByPollsAlone) {
  constexpr size_t kLength = 2 << 20;
  Crowd crowd(GetParam() - 1);
  Buffer from(crowd.a.domain, kLength, 0, 1);
  const std::vector<QueuePair*> senders = crowd.QueuePairsOfA();
  Buffer to(crowd.b.domain, kLength * senders.size(), kMrAllowLocalWrite | kAllAccess);
  const Sge own = from.sge();
  for (size_t i = 0; i < senders.size(); ++i) {
    ASSERT_EQ(senders[i]->Write(nullptr, {&own, 1}, to.remote(i * kLength), 0), NdkStatus::kSuccess);
  }
  std::array<ResultEx, 16> results;
  size_t done = 0;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(crowd.b.cq->GetResultsEx(results), 0u);
    done += crowd.a.cq->GetResultsEx(results);
    return done == senders.size();
  })) << done;
}

INSTANTIATE_TEST_SUITE_P(Connections, Cost, testing::Values(1, 2, 30), testing::PrintToStringParamName());

}  // namespace
}  // namespace rdmabroker::iwarp
