// SPDX-License-Identifier: Apache-2.0

#include "broker/control/absent_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "broker/runtime/queue_executor_for_test.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::pause();
    ::_exit(0);
  }
  ~Child() { End(); }

  pid_t pid() const { return pid_; }
  // Until nothing of it is left.
  void End() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

class AbsentClientsTest : public testing::Test {
 protected:
  bool Becomes(size_t count) {
    return executor_.RunUntil([&] { return gone_.size() >= count; });
  }

  QueueExecutor executor_;
  Watcher watcher_{executor_};
  std::vector<SessionId> gone_;
  AbsentClients absent_{watcher_, [this](SessionId session) { gone_.push_back(session); }};
};

TEST_F(AbsentClientsTest, AreToldOnceTheyCannotReturn) {
  Child child;
  absent_.Await(SessionId(1), child.pid());
  absent_.Await(SessionId(2), ::getpid());
  EXPECT_THAT(gone_, IsEmpty());
  child.End();
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(gone_, ElementsAre(SessionId(1)));
}

TEST_F(AbsentClientsTest, AreToldIfTheyHaveGoneBefore) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  absent_.Await(SessionId(1), pid);
  EXPECT_THAT(gone_, IsEmpty()) << "inside the call";
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(gone_, ElementsAre(SessionId(1)));
}

TEST_F(AbsentClientsTest, AreNotToldAfterTheyHaveReturned) {
  Child first;
  Child second;
  Child third;
  absent_.Await(SessionId(1), first.pid());
  absent_.Await(SessionId(2), second.pid());
  absent_.Await(SessionId(3), third.pid());
  absent_.Forget(SessionId(1));
  absent_.Forget(SessionId(9));
  first.End();
  second.End();
  third.End();
  ASSERT_TRUE(Becomes(2));
  EXPECT_THAT(gone_, testing::UnorderedElementsAre(SessionId(2), SessionId(3)));
}

TEST_F(AbsentClientsTest, WhoseProcessesCannotBeSeenAreNotWatched) {
  Child child;
  absent_.Await(SessionId(1), 0);
  absent_.Await(SessionId(2), child.pid());
  child.End();
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(gone_, ElementsAre(SessionId(2)));
}

}  // namespace
}  // namespace rdmabroker
