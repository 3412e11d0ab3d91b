// SPDX-License-Identifier: Apache-2.0

#include "broker/control/client_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/runtime/loop_for_test.h"

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

class ClientProcessesTest : public testing::Test {
 protected:
  bool Becomes(size_t count) {
    return RunUntil(loop_, [&] { return ended_.size() >= count; });
  }

  Loop loop_;
  std::vector<SessionId> ended_;
  ClientProcesses processes_{loop_, [this](SessionId session) { ended_.push_back(session); }};
};

TEST_F(ClientProcessesTest, AreToldOnceTheyHaveEnded) {
  Child child;
  processes_.Watch(SessionId(1), child.pid());
  processes_.Watch(SessionId(2), ::getpid());
  EXPECT_THAT(ended_, IsEmpty());
  child.End();
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(ended_, ElementsAre(SessionId(1)));
}

TEST_F(ClientProcessesTest, OfManySessionsAreToldOfSomeInATurn) {
  constexpr uint64_t kSessions = 20;
  Child child;
  for (uint64_t session = 1; session <= kSessions; ++session) processes_.Watch(SessionId(session), child.pid());
  child.End();
  size_t told = 0;
  EXPECT_TRUE(RunUntil(loop_, [&] {
    EXPECT_LE(ended_.size() - told, ClientProcesses::kInATurn);
    told = ended_.size();
    return told == kSessions;
  }));
}

TEST_F(ClientProcessesTest, WhoseTurnIsLaterAreNotToldOfOnceTheirSessionsHaveEnded) {
  constexpr uint64_t kSessions = ClientProcesses::kInATurn + 2;
  Child child;
  for (uint64_t session = 1; session <= kSessions; ++session) processes_.Watch(SessionId(session), child.pid());
  child.End();
  // All of them are due before the loop runs again.
  ASSERT_TRUE(loop_.RunTurn(Loop::Now() + absl::Seconds(10)));
  const absl::Time due = Loop::Now() + ClientProcesses::kLastWords;
  while (Loop::Now() <= due) {
  }
  ASSERT_TRUE(Becomes(1));
  ASSERT_EQ(ended_.size(), ClientProcesses::kInATurn);
  std::vector<SessionId> others;
  for (uint64_t session = 1; session <= kSessions; ++session) {
    if (std::count(ended_.begin(), ended_.end(), SessionId(session)) == 0) others.emplace_back(session);
  }
  processes_.Forget(others.back());
  others.pop_back();
  ASSERT_TRUE(Becomes(kSessions - 1));
  EXPECT_EQ(ended_.back(), others.back());
}

TEST_F(ClientProcessesTest, AreToldIfTheyHaveEndedBefore) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  processes_.Watch(SessionId(1), pid);
  EXPECT_THAT(ended_, IsEmpty()) << "inside the call";
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(ended_, ElementsAre(SessionId(1)));
}

TEST_F(ClientProcessesTest, AreNotToldAfterTheirSessionsHaveEnded) {
  Child first;
  Child second;
  Child third;
  processes_.Watch(SessionId(1), first.pid());
  processes_.Watch(SessionId(2), second.pid());
  processes_.Watch(SessionId(3), third.pid());
  processes_.Forget(SessionId(1));
  processes_.Forget(SessionId(9));
  first.End();
  second.End();
  third.End();
  ASSERT_TRUE(Becomes(2));
  EXPECT_THAT(ended_, testing::UnorderedElementsAre(SessionId(2), SessionId(3)));
}

TEST_F(ClientProcessesTest, AreToldAfterTheirLastWordsAndNotWhereTheseEndTheirSessions) {
  Child first;
  Child second;
  processes_.Watch(SessionId(1), first.pid());
  processes_.Watch(SessionId(1), first.pid());
  processes_.Watch(SessionId(2), second.pid());
  second.End();
  ASSERT_TRUE(loop_.RunTurn(Loop::Now() + absl::Seconds(30)));
  processes_.Forget(SessionId(2));
  const absl::Time end = Loop::Now();
  first.End();
  ASSERT_TRUE(Becomes(1));
  EXPECT_GE(Loop::Now() - end, ClientProcesses::kLastWords);
  EXPECT_THAT(ended_, ElementsAre(SessionId(1))) << "the other one would have been told sooner";
}

TEST_F(ClientProcessesTest, WithoutAStreamAreToldAtOnce) {
  Child first;
  Child second;
  Child third;
  processes_.Watch(SessionId(1), first.pid());
  processes_.StopListening(SessionId(1));
  processes_.Watch(SessionId(2), second.pid());
  processes_.Watch(SessionId(3), third.pid());
  processes_.StopListening(SessionId(3));
  processes_.Watch(SessionId(3), third.pid());
  const absl::Time begin = Loop::Now();
  first.End();
  ASSERT_TRUE(Becomes(1));
  second.End();
  ASSERT_TRUE(loop_.RunTurn(Loop::Now() + absl::Seconds(30)));
  processes_.StopListening(SessionId(2));
  EXPECT_THAT(ended_, ElementsAre(SessionId(1))) << "never inside the call";
  ASSERT_TRUE(Becomes(2));
  EXPECT_THAT(ended_, ElementsAre(SessionId(1), SessionId(2)));
  third.End();
  ASSERT_TRUE(Becomes(3));
  EXPECT_GE(Loop::Now() - begin, ClientProcesses::kLastWords) << "one that has returned is listened to";
}

TEST_F(ClientProcessesTest, ThatCannotBeSeenAreNotWatched) {
  Child child;
  processes_.Watch(SessionId(1), 0);
  processes_.Watch(SessionId(2), child.pid());
  child.End();
  ASSERT_TRUE(Becomes(1));
  EXPECT_THAT(ended_, ElementsAre(SessionId(2)));
}

}  // namespace
}  // namespace rdmabroker
