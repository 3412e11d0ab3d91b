// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/descriptor_keep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "broker/runtime/fake_supervisor.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

UniqueFd File() { return UniqueFd(::memfd_create("kept", MFD_CLOEXEC)); }

std::vector<std::string> NamesOf(const std::vector<KeptDescriptor>& kept) {
  std::vector<std::string> names;
  for (const KeptDescriptor& one : kept) names.push_back(one.name);
  return names;
}

TEST(ADescriptorKeep, GivesTheNextProcessWhatWasKeptAndNotForgotten) {
  FakeSupervisor supervisor;
  const UniqueFd files[] = {File(), File(), File()};
  {
    DescriptorKeep keep(supervisor);
    EXPECT_THAT(keep.Take(""), IsEmpty());
    keep.Keep("e2.0", files[0].get());
    keep.Keep("e1.0", files[1].get());
    keep.Keep("e1.1", files[2].get());
    keep.Forget("e2.0");
    keep.Committed();
  }
  supervisor.Restart();
  DescriptorKeep keep(supervisor);
  const auto taken = keep.Take("e");
  ASSERT_THAT(NamesOf(taken), ElementsAre("e1.0", "e1.1"));
  EXPECT_TRUE(AreSameFile(taken[0].fd.get(), files[1].get()));
  EXPECT_TRUE(AreSameFile(taken[1].fd.get(), files[2].get()));
}

TEST(ADescriptorKeep, GivesByPrefixAndEachOnce) {
  FakeSupervisor supervisor;
  {
    DescriptorKeep keep(supervisor);
    for (const char* name : {"e1.0", "e11.0", "t1", "e1.1"}) keep.Keep(name, File().get());
  }
  supervisor.Restart();
  DescriptorKeep keep(supervisor);
  EXPECT_THAT(NamesOf(keep.Take("e1.")), ElementsAre("e1.0", "e1.1"));
  EXPECT_THAT(NamesOf(keep.Take("e1.")), IsEmpty());
  EXPECT_THAT(NamesOf(keep.Take("x")), IsEmpty());
  EXPECT_THAT(NamesOf(keep.Take("e")), ElementsAre("e11.0"));
}

TEST(ADescriptorKeep, KeepsWhatWasTakenUntilItIsForgotten) {
  FakeSupervisor supervisor;
  {
    DescriptorKeep keep(supervisor);
    for (const char* name : {"a", "b", "c"}) keep.Keep(name, File().get());
  }
  supervisor.Restart();
  {
    DescriptorKeep keep(supervisor);
    ASSERT_EQ(keep.Take("a").size(), 1u);
    ASSERT_EQ(keep.Take("b").size(), 1u);
    keep.Forget("b");
    CapturedLog log;
    keep.ForgetTheRest();
    keep.ForgetTheRest();
    EXPECT_EQ(log.LinesWith("belong to nothing here, and are closed count=1 first=c").size(), 1u);
    keep.Committed();
  }
  supervisor.Restart();
  DescriptorKeep keep(supervisor);
  EXPECT_THAT(NamesOf(keep.Take("")), ElementsAre("a"));
}

TEST(ADescriptorKeep, ForgetsNothingThatTheStoredRecordsMayNeed) {
  FakeSupervisor supervisor;
  DescriptorKeep keep(supervisor);
  keep.Keep("a", File().get());
  keep.Forget("a");
  EXPECT_THAT(NamesOf(supervisor.stored()), ElementsAre("a"));
  keep.Committed();
  EXPECT_THAT(NamesOf(supervisor.stored()), IsEmpty());
}

TEST(ADescriptorKeep, LeavesRoomForWhatCannotBeMadeAnew) {
  FakeSupervisor supervisor;
  supervisor.KeepAtMost(8);
  {
    DescriptorKeep keep(supervisor);
    for (const char* const name : {"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"}) {
      keep.KeepIfThereIsRoom(name, File().get(), 0.75);
    }
    keep.Keep("c1", File().get());
    EXPECT_THAT(NamesOf(supervisor.stored()), ElementsAre("e0", "e1", "e2", "e3", "e4", "e5", "c1"));
    keep.ForgetNow("e0");
    keep.ForgetNow("e1");
    EXPECT_TRUE(keep.KeepIfThereIsRoom("e8", File().get(), 0.75));
  }
  supervisor.Restart();
  DescriptorKeep keep(supervisor);
  EXPECT_FALSE(keep.KeepIfThereIsRoom("e9", File().get(), 0.75));
  EXPECT_THAT(NamesOf(supervisor.stored()), ElementsAre("e2", "e3", "e4", "e5", "c1", "e8"));
}

TEST(ADescriptorKeep, WaitsForTheSupervisor) {
  FakeSupervisor supervisor;
  DescriptorKeep keep(supervisor);
  keep.Keep("a", File().get());
  supervisor.FallSilent();
  const std::function<int()> await = keep.Await();
  EXPECT_THAT(supervisor.told(), ElementsAre("store a", "barrier"));
  // Nobody has waited yet.
  supervisor.Speak();
  EXPECT_EQ(await(), 0);
}

TEST(ADescriptorKeep, KeepsSurelyOrSaysWhyNot) {
  const absl::Status silent = absl::DeadlineExceededError("silent");
  const absl::Status full = absl::ResourceExhaustedError("too many are on their way");
  struct Row {
    std::deque<absl::Status> answers;
    absl::Status result;
    std::vector<std::string> told;
  };
  const Row rows[] = {
      {{}, absl::OkStatus(), {"store a", "barrier"}},
      {{absl::OkStatus(), silent}, silent, {"store a"}},
      {{full}, full, {}},
  };
  for (const Row& row : rows) {
    FakeSupervisor supervisor;
    DescriptorKeep keep(supervisor);
    supervisor.AnswerNext(row.answers);
    EXPECT_EQ(keep.KeepSurely("a", File().get()), row.result);
    EXPECT_EQ(supervisor.told(), row.told);
  }
}

TEST(ADescriptorKeep, KeepsNothingSurelyThatHasNoRoom) {
  FakeSupervisor supervisor;
  supervisor.KeepAtMost(2);
  DescriptorKeep keep(supervisor);
  keep.Keep("t1", File().get());
  EXPECT_TRUE(keep.KeepSurely("c1", File().get()).ok());
  EXPECT_TRUE(keep.KeepSurely("c1", File().get()).ok()) << "it has its place";
  EXPECT_TRUE(absl::IsResourceExhausted(keep.KeepSurely("c2", File().get())));
  EXPECT_THAT(NamesOf(supervisor.stored()), ElementsAre("t1", "c1"));
}

TEST(ADescriptorKeep, KnowsWhatNobodyHasTaken) {
  FakeSupervisor supervisor;
  {
    DescriptorKeep keep(supervisor);
    for (const char* name : {"b1", "d1"}) keep.Keep(name, File().get());
    EXPECT_FALSE(keep.HasInherited("b")) << "it is this process's own";
  }
  supervisor.Restart();
  DescriptorKeep keep(supervisor);
  EXPECT_TRUE(keep.HasInherited("b"));
  for (const char* const none : {"a", "b2", "c", "e"}) EXPECT_FALSE(keep.HasInherited(none)) << none;
  (void)keep.Take("b");
  EXPECT_FALSE(keep.HasInherited("b"));
}

TEST(ADescriptorKeep, GoesOnWhereTheSupervisorHasGone) {
  FakeSupervisor supervisor;
  DescriptorKeep keep(supervisor);
  supervisor.Answer(absl::UnavailableError("gone"));
  keep.Keep("a", File().get());
  keep.Forget("a");
  keep.Committed();
  EXPECT_NE(keep.Await()(), 0);
  supervisor.Answer(absl::OkStatus());
  keep.Keep("b", File().get());
  EXPECT_THAT(NamesOf(supervisor.stored()), ElementsAre("b"));
}

}  // namespace
}  // namespace rdmabroker
