// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/notifier.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

struct Heard {
  std::string state;
  UniqueFd fd;
};

// A supervisor that reads when it is told to.
class Listener {
 public:
  // At the abstract name behind the "@".
  explicit Listener(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at = {.sun_family = AF_UNIX};
    std::memcpy(at.sun_path + 1, name.data() + 1, name.size() - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
  }
  // Waits for the next one.
  Heard Hear() {
    std::array<char, 4096> text = {};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    iovec into = {text.data(), text.size()};
    msghdr message = {};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    EXPECT_GE(length, 0);
    Heard heard{std::string(text.data(), static_cast<size_t>(length)), {}};
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      heard.fd = UniqueFd(fd);
    }
    return heard;
  }

 private:
  UniqueFd socket_;
};

class NotifierTest : public testing::Test {
 protected:
  const std::string name_ = "@rdma-broker-notifier-test-" + std::to_string(std::random_device()());
  std::unique_ptr<Listener> listener_ = std::make_unique<Listener>(name_);
  const std::unique_ptr<Notifier> notifier_ = *Notifier::Open(name_);
};

// The kernel queues some ten messages for a socket by default (net.unix.max_dgram_qlen).
constexpr int kMany = 1000;

std::string Numbered(int number) { return "FDSTORE=1\nFDNAME=n" + std::to_string(number); }

TEST_F(NotifierTest, TellsASupervisorThatDoesNotReadInOrderOnceItReads) {
  std::vector<ino_t> files;
  for (int i = 0; i < kMany; ++i) {
    const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
    struct stat status = {};
    ASSERT_EQ(::fstat(file.get(), &status), 0);
    files.push_back(status.st_ino);
    ASSERT_TRUE(notifier_->Send(Numbered(i), file.get()).ok()) << i;
  }
  for (int i = 0; i < kMany; ++i) {
    const Heard heard = listener_->Hear();
    EXPECT_EQ(heard.state, Numbered(i));
    struct stat status = {};
    ASSERT_EQ(::fstat(heard.fd.get(), &status), 0) << i;
    EXPECT_EQ(status.st_ino, files[static_cast<size_t>(i)]);
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

TEST_F(NotifierTest, FindsTheSupervisorThatListensInPlaceOfAnother) {
  ASSERT_TRUE(notifier_->Send("one").ok());
  listener_.reset();
  EXPECT_FALSE(notifier_->Send("two").ok());
  listener_ = std::make_unique<Listener>(name_);
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
