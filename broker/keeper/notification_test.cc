// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/notification.h"

#include <gtest/gtest.h>

#include <string>

namespace rdmabroker::keeper {
namespace {

using State = Notification::State;
using Watchdog = Notification::Watchdog;
using Descriptors = Notification::Descriptors;

// What a message that is fine asks for.
Notification Read(absl::string_view text, size_t descriptors = 0) {
  const auto notification = ReadNotification(text, descriptors);
  EXPECT_TRUE(notification.ok()) << notification.status();
  return notification.ok() ? *notification : Notification();
}

bool AsksForNothing(const Notification& notification) {
  return notification.state == State::kUnchanged && !notification.status &&
         notification.watchdog == Watchdog::kUnchanged && !notification.watchdog_interval &&
         notification.descriptors == Descriptors::kUnchanged;
}

TEST(Notification, TellsOfAStateAndTheLastOneCounts) {
  struct Row {
    const char* text;
    State state;
  };
  const Row rows[] = {
      {"READY=1", State::kReady},
      {"READY=1\n", State::kReady},
      {"STOPPING=1", State::kStopping},
      {"READY=1\nSTOPPING=1", State::kStopping},
      {"STOPPING=1\nSTATUS=s\nREADY=1", State::kReady},
      {"READY=0", State::kUnchanged},
      {"READY=1 ", State::kUnchanged},
      {" READY=1", State::kUnchanged},
      {"ready=1", State::kUnchanged},
      {"STATUS=READY=1", State::kUnchanged},
      {"", State::kUnchanged},
  };
  for (const Row& row : rows) EXPECT_EQ(Read(row.text).state, row.state) << row.text;
}

TEST(Notification, TellsTheFirstStatusOfAll) {
  EXPECT_EQ(Read("STATUS=serves a=b").status, "serves a=b");
  EXPECT_EQ(Read("STATUS=").status, "");
  EXPECT_EQ(Read("READY=1\nSTATUS=first\nSTATUS=second").status, "first");
  EXPECT_EQ(Read("READY=1").status, std::nullopt);
}

TEST(Notification, TellsOfTheWatchdog) {
  struct Row {
    const char* text;
    Watchdog watchdog;
    std::optional<absl::Duration> interval;
    size_t objections;
  };
  const Row rows[] = {
      {"WATCHDOG=1", Watchdog::kPing, {}, 0},
      {"WATCHDOG=trigger", Watchdog::kTrigger, {}, 0},
      {"WATCHDOG=2", Watchdog::kUnchanged, {}, 1},
      {"WATCHDOG=", Watchdog::kUnchanged, {}, 1},
      {"WATCHDOG_USEC=20000000", Watchdog::kUnchanged, absl::Seconds(20), 0},
      {"WATCHDOG=1\nWATCHDOG_USEC=1", Watchdog::kPing, absl::Microseconds(1), 0},
      {"WATCHDOG_USEC=0", Watchdog::kUnchanged, absl::InfiniteDuration(), 0},
      {"WATCHDOG_USEC=18446744073709551615", Watchdog::kUnchanged, absl::InfiniteDuration(), 0},
      {"WATCHDOG_USEC=18446744073709551616", Watchdog::kUnchanged, {}, 1},
      {"WATCHDOG_USEC=-1", Watchdog::kUnchanged, {}, 1},
      {"WATCHDOG_USEC=5s", Watchdog::kUnchanged, {}, 1},
      {"WATCHDOG_USEC=", Watchdog::kUnchanged, {}, 1},
  };
  for (const Row& row : rows) {
    const Notification notification = Read(row.text);
    EXPECT_EQ(notification.watchdog, row.watchdog) << row.text;
    EXPECT_EQ(notification.watchdog_interval, row.interval) << row.text;
    EXPECT_EQ(notification.objections.size(), row.objections) << row.text;
  }
}

TEST(Notification, TellsWhatBecomesOfDescriptors) {
  const std::string longest(255, 'n');
  struct Row {
    std::string text;
    Descriptors descriptors;
    std::string name;
    bool polled;
    size_t objections;
  };
  const Row rows[] = {
      {"FDSTORE=1\nFDNAME=rdma_cm\nFDPOLL=0", Descriptors::kStore, "rdma_cm", false, 0},
      {"FDPOLL=0\nFDNAME=rdma_cm\nFDSTORE=1", Descriptors::kStore, "rdma_cm", false, 0},
      {"FDSTORE=1\nFDNAME=rdma_cm", Descriptors::kStore, "rdma_cm", true, 0},
      {"FDSTORE=1\nFDPOLL=1", Descriptors::kStore, "stored", true, 0},
      {"FDSTORE=1", Descriptors::kStore, "stored", true, 0},
      {"FDSTORE=1\nFDNAME=", Descriptors::kStore, "", true, 0},
      {"FDSTORE=1\nFDNAME=" + longest, Descriptors::kStore, longest, true, 0},
      {"FDSTORE=1\nFDNAME=n" + longest, Descriptors::kStore, "stored", true, 1},
      {"FDSTORE=1\nFDNAME=a:b", Descriptors::kStore, "stored", true, 1},
      {"FDSTORE=0\nFDNAME=a", Descriptors::kUnchanged, "", true, 0},
      {"FDNAME=a\nFDPOLL=0", Descriptors::kUnchanged, "", true, 0},
      {"FDSTOREREMOVE=1\nFDNAME=a", Descriptors::kRemove, "a", true, 0},
      {"FDSTOREREMOVE=1\nFDNAME=", Descriptors::kRemove, "", true, 0},
      {"FDSTOREREMOVE=1", Descriptors::kUnchanged, "", true, 1},
      {"FDSTOREREMOVE=1\nFDNAME=a:b", Descriptors::kUnchanged, "", true, 1},
      {"FDSTORE=1\nFDSTOREREMOVE=1\nFDNAME=a", Descriptors::kRemove, "a", true, 0},
  };
  for (const Row& row : rows) {
    const Notification notification = Read(row.text, 1);
    EXPECT_EQ(notification.descriptors, row.descriptors) << row.text;
    EXPECT_EQ(notification.name, row.name) << row.text;
    EXPECT_EQ(notification.polled, row.polled) << row.text;
    EXPECT_EQ(notification.objections.size(), row.objections) << row.text;
  }
}

TEST(Notification, IgnoresWhatItDoesNotKnow) {
  const char* const texts[] = {"",           "\n\n",      "nothing",         "MAINPID=1",   "ERRNO=2",
                               "=",          "X_OURS=1",  "RELOADING=1",     "BARRIER=0",   "EXTEND_TIMEOUT_USEC=5",
                               "XREADY=1\n", "READY=1\r", "\xff\xfe=\x01\n", "WATCHDOGS=1", "FDSTORE"};
  for (const char* text : texts) {
    const Notification notification = Read(text, 2);
    EXPECT_TRUE(AsksForNothing(notification)) << text;
    EXPECT_TRUE(notification.objections.empty()) << text;
  }
}

TEST(Notification, ABarrierStandsAloneWithOneDescriptor) {
  struct Row {
    const char* text;
    size_t descriptors;
    bool fine;
  };
  const Row rows[] = {
      {"BARRIER=1", 1, true},       {"BARRIER=1\n", 1, true},           {"BARRIER=1", 0, false},
      {"BARRIER=1", 2, false},      {"BARRIER=1\nREADY=1", 1, false},   {"READY=1\nBARRIER=1", 1, false},
      {"BARRIER=1\nX=1", 1, false}, {"BARRIER=1\nBARRIER=1", 1, false},
  };
  for (const Row& row : rows) {
    const auto notification = ReadNotification(row.text, row.descriptors);
    EXPECT_EQ(notification.ok(), row.fine) << row.text << " with " << row.descriptors;
    if (notification.ok()) {
      EXPECT_TRUE(AsksForNothing(*notification));
    }
  }
}

TEST(Notification, HasNoZeroByteButOneAtItsEnd) {
  EXPECT_EQ(Read(std::string("READY=1\0", 8)).state, State::kReady);
  EXPECT_FALSE(ReadNotification(std::string("READY=1\0\0", 9), 0).ok());
  EXPECT_FALSE(ReadNotification(std::string("READY=1\0\nSTATUS=s", 17), 0).ok());
}

TEST(Notification, ItsObjectionsSayNothingOfItsContents) {
  const Notification notification = Read("WATCHDOG=secret\nWATCHDOG_USEC=secret\nFDSTORE=1\nFDNAME=secret:", 1);
  ASSERT_EQ(notification.objections.size(), 3u);
  for (const char* objection : notification.objections) {
    EXPECT_EQ(std::string(objection).find("secret"), std::string::npos) << objection;
  }
}

}  // namespace
}  // namespace rdmabroker::keeper
