// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/notifier.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "broker/runtime/testing/notify_listener.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

class NotifierTest : public testing::Test {
 protected:
  const std::string name_ = NotifySocketName();
  std::unique_ptr<NotifyListener> listener_ = std::make_unique<NotifyListener>(name_);
  const std::unique_ptr<Notifier> notifier_ = *Notifier::Open(name_);
};

// The kernel queues some ten messages for a socket by default (net.unix.max_dgram_qlen).
constexpr int kMany = 1000;

std::string Numbered(int number) { return "FDSTORE=1\nFDNAME=n" + std::to_string(number); }

ino_t FileOf(int fd) {
  struct stat status = {};
  EXPECT_EQ(::fstat(fd, &status), 0);
  return status.st_ino;
}

TEST_F(NotifierTest, TellsASupervisorThatDoesNotReadInOrderOnceItReads) {
  std::vector<ino_t> files;
  for (int i = 0; i < kMany; ++i) {
    const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
    files.push_back(FileOf(file.get()));
    ASSERT_TRUE(notifier_->Send(Numbered(i), file.get()).ok()) << i;
  }
  for (int i = 0; i < kMany; ++i) {
    const HeardNotification heard = listener_->Hear();
    EXPECT_EQ(heard.state, Numbered(i));
    EXPECT_EQ(FileOf(heard.fd.get()), files[static_cast<size_t>(i)]) << i;
  }
}

TEST_F(NotifierTest, QueuesTheLatestStatusAndOnePingAlone) {
  for (int i = 0; i < kMany; ++i) {
    ASSERT_TRUE(notifier_->Send("STATUS=" + std::to_string(i)).ok());
    ASSERT_TRUE(notifier_->Send("WATCHDOG=1").ok());
  }
  ASSERT_TRUE(notifier_->Send("last").ok());
  int heard = 0;
  std::string latest;
  for (std::string state; state != "last"; ++heard) {
    state = listener_->Hear().state;
    if (state.starts_with("STATUS=")) latest = state;
  }
  EXPECT_EQ(latest, "STATUS=" + std::to_string(kMany - 1));
  EXPECT_LT(heard, kMany);
}

TEST_F(NotifierTest, RefusesMoreThanItsQueueHolds) {
  size_t taken = 0;
  absl::Status sent;
  while (taken < 2 * Notifier::kMostQueued && sent.ok()) {
    sent = notifier_->Send("x");
    if (sent.ok()) ++taken;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(sent)) << sent;
  EXPECT_GE(taken, Notifier::kMostQueued);
}

TEST_F(NotifierTest, SendsADescriptorOfAProcessThatGetsNoMore) {
  const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
  {
    const FullDescriptorTable full;
    ASSERT_TRUE(notifier_->Send("kept", file.get()).ok());
  }
  EXPECT_EQ(FileOf(listener_->Hear().fd.get()), FileOf(file.get()));
}

TEST_F(NotifierTest, QueuesADescriptorOfAProcessThatGetsNoMoreAsOftenAsItsReserveIsBack) {
  const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
  for (int round = 0; round < 3; ++round) {
    {
      const FullDescriptorTable full;
      for (int i = 0; i < kMany; ++i) ASSERT_TRUE(notifier_->Send("fills the socket").ok());
      for (size_t i = 0; i < Notifier::kReserve; ++i) {
        const absl::Status sent = notifier_->Send("kept", file.get());
        ASSERT_TRUE(sent.ok()) << "round " << round << ": " << sent;
      }
      EXPECT_TRUE(absl::IsResourceExhausted(notifier_->Send("one too many", file.get())));
      // It is sent after the reserve has back what the messages before it had.
      ASSERT_TRUE(notifier_->Send("end").ok());
    }
    size_t kept = 0;
    for (HeardNotification heard = listener_->Hear(); heard.state != "end"; heard = listener_->Hear()) {
      if (heard.state != "kept") continue;
      ++kept;
      EXPECT_EQ(FileOf(heard.fd.get()), FileOf(file.get()));
    }
    EXPECT_EQ(kept, Notifier::kReserve);
  }
}

TEST_F(NotifierTest, FindsTheSupervisorThatListensInPlaceOfAnother) {
  ASSERT_TRUE(notifier_->Send("one").ok());
  listener_.reset();
  EXPECT_FALSE(notifier_->Send("two").ok());
  listener_ = std::make_unique<NotifyListener>(name_);
  EXPECT_TRUE(notifier_->Send("three").ok());
  EXPECT_EQ(listener_->Hear().state, "three");
}

TEST(Notifier, TakesPathsAndAbstractNamesAlone) {
  for (const std::string& path : {std::string(), std::string("relative"), std::string("vsock:2:1"),
                                  "/" + std::string(sizeof(sockaddr_un::sun_path), 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Notifier::Open(path).status())) << path;
  }
  EXPECT_TRUE(Notifier::Open("@rdma-broker-notifier-test-nobody").ok()) << "nobody listens yet";
}

}  // namespace
}  // namespace rdmabroker
