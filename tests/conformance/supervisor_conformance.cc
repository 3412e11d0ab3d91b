// SPDX-License-Identifier: Apache-2.0

// The contract of broker/runtime/supervisor.h, as tests.

#include "tests/conformance/supervisor_conformance.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "broker/runtime/kept_descriptor.h"

namespace rdmabroker {
namespace {

TEST_P(SupervisorConformance, IsThereAndSaysHowLongItsWatchdogWaits) {
  EXPECT_EQ(world_->Obey("there"), "yes");
  EXPECT_EQ(world_->Obey("interval"), "20s");
}

TEST_P(SupervisorConformance, HearsWhatItIsTold) {
  for (const char* order : {"ready", "ping", "status serves 3 sessions: a=b", "status ", "stopping", "barrier"}) {
    EXPECT_EQ(world_->Obey(order), "OK") << order;
  }
}

// A line's end is one of them; an order to a process cannot have that.
TEST_P(SupervisorConformance, HearsNoStatusWithControlCharacters) {
  for (const char* order : {"status a\rb", "status a\x1b[31m", "status \x01", "status \x7f"}) {
    EXPECT_EQ(world_->Obey(order), "INVALID_ARGUMENT") << order;
  }
}

TEST_P(SupervisorConformance, KeepsNothingThatWasNotStored) {
  EXPECT_EQ(world_->Obey("kept"), "kept: ");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: ");
}

TEST_P(SupervisorConformance, KeepsWhatIsStoredOverEveryDeathUntilItIsRemoved) {
  EXPECT_EQ(world_->Obey("store rdma_cm first"), "OK");
  EXPECT_EQ(world_->Obey("store 10.0.0.1,4420 second"), "OK");
  EXPECT_EQ(world_->Obey("kept"), "kept: ") << "it is there only for the next process";
  for (int death = 0; death < 2; ++death) {
    world_->Restart();
    EXPECT_EQ(world_->Obey("kept"), "kept: 10.0.0.1,4420=second rdma_cm=first");
    EXPECT_EQ(world_->Obey("kept"), "kept: ") << "it is handed over once";
  }
  EXPECT_EQ(world_->Obey("remove rdma_cm"), "OK");
  EXPECT_EQ(world_->Obey("store another third"), "OK");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: 10.0.0.1,4420=second another=third");
}

TEST_P(SupervisorConformance, RemovesAllOfAName) {
  for (const char* order : {"store a 1", "store b 2", "store a 3", "remove none", "barrier"}) {
    EXPECT_EQ(world_->Obey(order), "OK") << order;
  }
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: a=1 a=3 b=2");
  EXPECT_EQ(world_->Obey("remove a"), "OK");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: b=2");
}

TEST_P(SupervisorConformance, SaysForHowManyItHasRoomAndKeepsNoMore) {
  EXPECT_EQ(world_->Obey("room"), "8");
  for (int i = 1; i <= 9; ++i) EXPECT_EQ(world_->Obey(absl::StrCat("store d", i, " ", i)), "OK");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: d1=1 d2=2 d3=3 d4=4 d5=5 d6=6 d7=7 d8=8");
  EXPECT_EQ(world_->Obey("room"), "8");
}

TEST_P(SupervisorConformance, KeepsAFileOnceAndByItsFirstName) {
  const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
  const UniqueFd duplicate(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!AreSameFile(file.get(), duplicate.get())) GTEST_SKIP() << "kcmp(2) is not to be had";
  EXPECT_EQ(world_->Obey("twice first second c"), "OK");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: first=c");
}

TEST_P(SupervisorConformance, KeepsOneWhoseOtherEndIsGone) {
  EXPECT_EQ(world_->Obey("store-hungup pipe"), "OK");
  EXPECT_EQ(world_->Obey("barrier"), "OK");
  EXPECT_EQ(world_->Obey("barrier"), "OK");
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: pipe=");
}

TEST_P(SupervisorConformance, RefusesNamesThatAreNone) {
  const std::string longest(255, 'n');
  EXPECT_EQ(world_->Obey("store " + longest + " c"), "OK");
  for (const std::string& name : {"n" + longest, std::string("a:b"), std::string("a\x01"), std::string("\xc3\xa4")}) {
    EXPECT_EQ(world_->Obey("store " + name + " c"), "INVALID_ARGUMENT") << name;
    EXPECT_EQ(world_->Obey("remove " + name), "INVALID_ARGUMENT") << name;
  }
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: " + longest + "=c");
}

TEST_P(SupervisorConformance, WhereThereIsNoneAllSucceedsAndNothingIsDone) {
  world_ = GetParam().alone();
  EXPECT_EQ(world_->Obey("there"), "no");
  EXPECT_EQ(world_->Obey("interval"), "inf");
  for (const char* order :
       {"ready", "ping", "status fine", "store n c", "remove n", "store m c", "barrier", "stopping"}) {
    EXPECT_EQ(world_->Obey(order), "OK") << order;
  }
  world_->Restart();
  EXPECT_EQ(world_->Obey("kept"), "kept: ");
}

}  // namespace
}  // namespace rdmabroker
