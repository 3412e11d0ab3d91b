// SPDX-License-Identifier: Apache-2.0

// On the one RDMA device of this machine: tests/vm makes such a machine.

#include "broker/fabric/rdmacm/qp_owner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "broker/fabric/rdmacm/testing/queue_pairs.h"

namespace rdmabroker {
namespace {

class QpOwnerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(queue_pairs_.Open()) << "there is no RDMA device"; }

  QpOwner OwnerFor(QpNumber qp, pid_t process) const { return FindQpOwner(queue_pairs_.device_index(), qp, process); }

  QueuePairs queue_pairs_;
};

TEST_F(QpOwnerTest, AQueuePairIsItsMakersInEachState) {
  const QpNumber own = queue_pairs_.Make();
  EXPECT_EQ(OwnerFor(own, ::getpid()), QpOwner::kThisProcess);
  ASSERT_TRUE(queue_pairs_.InitialiseLast());
  EXPECT_EQ(OwnerFor(own, ::getpid()), QpOwner::kThisProcess);
}

TEST_F(QpOwnerTest, AQueuePairIsAnothersForAProcessThatDidNotMakeIt) {
  const QpNumber own = queue_pairs_.Make();
  EXPECT_EQ(OwnerFor(own, ::getppid()), QpOwner::kAnother);
  ASSERT_TRUE(queue_pairs_.InitialiseLast());
  EXPECT_EQ(OwnerFor(own, ::getppid()), QpOwner::kAnother);
  EXPECT_EQ(OwnerFor(own, 0), QpOwner::kNotShown) << "a process that is not visible";
}

TEST_F(QpOwnerTest, ANumberThatNoQueuePairHasIsNobodys) {
  queue_pairs_.Make();
  EXPECT_EQ(OwnerFor({0xABCDE}, ::getpid()), QpOwner::kNobody);
}

TEST_F(QpOwnerTest, AQueuePairOfAnotherThreadOfTheProcessIsItsAsLongAsThatLives) {
  QpNumber own;
  std::string thread;
  std::thread([&] {
    own = queue_pairs_.Make();
    thread = "/proc/self/task/" + std::to_string(::gettid());
    QpOwner seen = QpOwner::kNotShown;
    std::thread([&] { seen = OwnerFor(own, ::getpid()); }).join();
    EXPECT_EQ(seen, QpOwner::kThisProcess);
  }).join();
  // A thread may be joined a moment before the kernel is done with it.
  while (::access(thread.c_str(), F_OK) == 0) std::this_thread::yield();
  EXPECT_NE(OwnerFor(own, ::getpid()), QpOwner::kThisProcess) << "nobody can tell whose it is";
}

// A thread's questions go by one socket, whether one message answers them or many, or none is there to give.
TEST_F(QpOwnerTest, EachQuestionOfAThreadGetsItsOwnAnswer) {
  constexpr uint32_t kNoDevice = 0xABCDE;
  const QpNumber own = queue_pairs_.Make();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(OwnerFor({0xABCDE}, ::getpid()), QpOwner::kNobody);
    EXPECT_EQ(OwnerFor(own, ::getpid()), QpOwner::kThisProcess);
    EXPECT_EQ(FindQpOwner(kNoDevice, own, ::getpid()), QpOwner::kNotShown);
  }
}

TEST_F(QpOwnerTest, AmongHundredsIsFoundThoughOthersGoMeanwhile) {
  constexpr int kGoing = 64, kStaying = 600;
  QueuePairs going;
  ASSERT_TRUE(going.Open());
  // siw gives the lowest number that is free, and the kernel lists by number: those that go are before all others.
  for (int i = 0; i < kGoing; ++i) going.Make();
  std::vector<QpNumber> staying;
  for (int i = 0; i < kStaying; ++i) staying.push_back(queue_pairs_.Make());
  std::atomic<bool> stopped = false;
  std::thread beside([&] {
    while (!stopped) {
      for (int i = 0; i < kGoing; ++i) going.DestroyLast();
      for (int i = 0; i < kGoing; ++i) going.Make();
    }
  });
  for (const QpNumber qp : staying) EXPECT_EQ(OwnerFor(qp, ::getpid()), QpOwner::kThisProcess) << qp.value;
  stopped = true;
  beside.join();
}

}  // namespace
}  // namespace rdmabroker
