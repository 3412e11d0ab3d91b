// SPDX-License-Identifier: Apache-2.0

#include "broker/control/kept_configuration.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/control/configuration.h"
#include "broker/runtime/fake_supervisor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

class KeptConfigurationTest : public testing::Test {
 protected:
  // A process that keeps these, one after the other, and dies.
  void Live(const std::vector<std::string>& texts) {
    DescriptorKeep keep(supervisor_);
    KeptConfiguration kept(keep);
    for (const std::string& text : texts) kept.Keep(text);
    keep.ForgetTheRest();
    supervisor_.Restart();
  }
  std::optional<std::string> FormerOfTheNext() {
    DescriptorKeep keep(supervisor_);
    const KeptConfiguration kept(keep);
    return kept.former() ? std::optional(kept.former()->text) : std::nullopt;
  }

  FakeSupervisor supervisor_;
};

TEST_F(KeptConfigurationTest, TheNextProcessHasTheLastOne) {
  EXPECT_EQ(FormerOfTheNext(), std::nullopt);
  Live({"[log]\n"});
  EXPECT_EQ(FormerOfTheNext(), "[log]\n");
  supervisor_.Restart();
  Live({"", "[limits]\n"});
  EXPECT_EQ(FormerOfTheNext(), "[limits]\n");
}

TEST_F(KeptConfigurationTest, NamesKeepTheirNumbers) {
  const AccountNumbers numbers = {.users = {{"alice", 1000}, {"of a domain", 4294967294}}, .groups = {{"rdma", 110}}};
  // The text may begin like what stands before it, or be empty.
  for (const char* text : {"[log]\n", "user = 7\ngroup = 8\n", "user", ""}) {
    SCOPED_TRACE(text);
    for (const AccountNumbers& wanted : {numbers, AccountNumbers(), AccountNumbers{.groups = numbers.groups}}) {
      FakeSupervisor supervisor;
      for (int process = 0; process < 2; ++process) {
        DescriptorKeep keep(supervisor);
        KeptConfiguration kept(keep);
        if (process == 1) {
          EXPECT_EQ(kept.former(), (KeptConfiguration::Former{text, wanted}));
        }
        kept.Keep(text, wanted);
        EXPECT_EQ(supervisor.stored().size(), 1u);
        supervisor.Restart();
      }
    }
  }
}

// Who has been removed and made anew is another.
TEST_F(KeptConfigurationTest, OtherNumbersAreAnotherConfiguration) {
  DescriptorKeep keep(supervisor_);
  KeptConfiguration kept(keep);
  kept.Keep("[log]\n", {.users = {{"alice", 1000}}});
  kept.Keep("[log]\n", {.users = {{"alice", 1001}}});
  supervisor_.Restart();
  DescriptorKeep next(supervisor_);
  EXPECT_EQ(KeptConfiguration(next).former()->numbers.users.at("alice"), 1001u);
}

TEST_F(KeptConfigurationTest, OneIsKeptHoweverOftenItChanges) {
  Live({"a", "b", "b", "c"});
  EXPECT_EQ(supervisor_.stored().size(), 1u);
  Live({"c"});
  Live({"d"});
  EXPECT_EQ(supervisor_.stored().size(), 1u);
  EXPECT_EQ(FormerOfTheNext(), "d");
}

TEST_F(KeptConfigurationTest, TheNextOneIsKeptBeforeTheFormerOneIsForgotten) {
  Live({"a", "b"});
  Live({"b", "c"});
  EXPECT_THAT(supervisor_.told(), testing::ElementsAre("store file.configuration.1", "store file.configuration.2",
                                                       "remove file.configuration.1", "store file.configuration.3",
                                                       "remove file.configuration.2"));
}

// What it tells its supervisor beyond `done` has no effect, as if it had died before.
TEST_F(KeptConfigurationTest, WheneverItsProcessDiesTheNextHasTheFormerOneOrTheLatter) {
  for (size_t done = 0; done <= 4; ++done) {
    SCOPED_TRACE(done);
    FakeSupervisor supervisor;
    {
      DescriptorKeep keep(supervisor);
      KeptConfiguration kept(keep);
      for (int text = 1; text <= 9; ++text) kept.Keep(absl::StrCat(text));
    }
    supervisor.Restart();
    {
      supervisor.AnswerNext(std::deque<absl::Status>(done, absl::OkStatus()));
      supervisor.Answer(absl::UnavailableError("died"));
      DescriptorKeep keep(supervisor);
      KeptConfiguration kept(keep);
      kept.Keep("10");
      kept.Keep("11");
    }
    supervisor.Answer(absl::OkStatus());
    supervisor.AnswerNext({});
    supervisor.Restart();
    const char* const expected[] = {"9", "10", "10", "11", "11"};
    DescriptorKeep keep(supervisor);
    KeptConfiguration kept(keep);
    ASSERT_TRUE(kept.former());
    EXPECT_EQ(kept.former()->text, expected[done]);
    EXPECT_EQ(supervisor.stored().size(), done % 2 == 0 ? 1u : 2u);
    kept.Keep(expected[done]);
    ASSERT_EQ(supervisor.stored().size(), 1u);
    supervisor.Restart();
    DescriptorKeep next(supervisor);
    EXPECT_EQ(KeptConfiguration(next).former()->text, expected[done]);
  }
}

TEST_F(KeptConfigurationTest, WithoutRoomForTheNextOneTheFormerOneIsKept) {
  supervisor_.KeepAtMost(1);
  Live({"a", "b"});
  EXPECT_EQ(FormerOfTheNext(), "a");
}

TEST_F(KeptConfigurationTest, NobodyCanChangeIt) {
  Live({"[log]\n"});
  const int file = supervisor_.stored().front().fd.get();
  EXPECT_EQ(::pwrite(file, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(file, 0), 0);
  EXPECT_NE(::ftruncate(file, 100), 0);
}

TEST_F(KeptConfigurationTest, WhatItHasNotMadeIsNotBelieved) {
  const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd endless(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const UniqueFd long_one(::memfd_create("long", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(long_one.get(), kMaxConfigurationBytes + 1), 0);
  ASSERT_EQ(::fcntl(long_one.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  for (const UniqueFd* file : {&unsealed, &endless, &long_one}) {
    FakeSupervisor supervisor;
    ASSERT_TRUE(supervisor.Store("file.configuration.1", file->get()).ok());
    supervisor.Restart();
    DescriptorKeep keep(supervisor);
    KeptConfiguration kept(keep);
    EXPECT_EQ(kept.former(), std::nullopt);
    kept.Keep("[log]\n");
    ASSERT_EQ(supervisor.stored().size(), 1u) << "it is not kept on";
    EXPECT_EQ(supervisor.stored().front().name, "file.configuration.2");
  }
}

TEST_F(KeptConfigurationTest, WithoutASupervisorNothingIsKept) {
  FakeSupervisor nobody(false);
  DescriptorKeep keep(nobody);
  KeptConfiguration kept(keep);
  kept.Keep("[log]\n");
  EXPECT_EQ(kept.former(), std::nullopt);
  EXPECT_TRUE(nobody.stored().empty());
}

// By their names' first letters others find theirs.
TEST_F(KeptConfigurationTest, ItIsInNobodyElsesWay) {
  Live({"[log]\n"});
  DescriptorKeep keep(supervisor_);
  for (const char* prefix : {"c", "e", "j", "o", "t", "socket"}) EXPECT_TRUE(keep.Take(prefix).empty()) << prefix;
  EXPECT_TRUE(KeptConfiguration(keep).former());
}

}  // namespace
}  // namespace rdmabroker
