// SPDX-License-Identifier: Apache-2.0

#include "broker/control/kept_configuration.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

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
    ASSERT_TRUE(supervisor.Store("file.configuration", file->get()).ok());
    supervisor.Restart();
    DescriptorKeep keep(supervisor);
    KeptConfiguration kept(keep);
    EXPECT_EQ(kept.former(), std::nullopt);
    EXPECT_TRUE(supervisor.stored().empty()) << "it is not kept on";
    kept.Keep("[log]\n");
    EXPECT_EQ(supervisor.stored().size(), 1u);
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
