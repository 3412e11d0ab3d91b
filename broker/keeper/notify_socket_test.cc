// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/notify_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "broker/keeper/notification.h"
#include "dataplane/testing/descriptor_shortage.h"

namespace rdmabroker::keeper {
namespace {

using testing::ElementsAre;

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader.Reset(ends[0]);
    writer.Reset(ends[1]);
  }
  // Of the writer and all its duplicates.
  bool IsClosed() const {
    pollfd end = {reader.get(), POLLIN, 0};
    return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
  }

  UniqueFd reader;
  UniqueFd writer;
};

class NotifySocketTest : public testing::Test {
 protected:
  NotifySocketTest() : sender_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

  void Send(std::string text, const std::vector<int>& descriptors = {}) {
    sockaddr_un address = {.sun_family = AF_UNIX};
    const std::string& name = socket_.address();
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
    iovec part = {text.data(), text.size()};
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    msghdr header = {.msg_name = &address,
                     .msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()),
                     .msg_iov = &part,
                     .msg_iovlen = 1};
    if (!descriptors.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      *rights = {
          .cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(sender_.get(), &header, MSG_DONTWAIT), static_cast<ssize_t>(text.size()));
  }
  std::vector<Datagram> Drain(int most = 100) {
    std::vector<Datagram> datagrams;
    socket_.Drain(most, [&](Datagram datagram) { datagrams.push_back(std::move(datagram)); });
    return datagrams;
  }

  UniqueFd sender_;
  NotifySocket socket_ = *NotifySocket::Open();
};

TEST_F(NotifySocketTest, HasANameOfItsOwnThatNeedsNoFile) {
  const auto another = NotifySocket::Open();
  ASSERT_TRUE(another.ok());
  EXPECT_EQ(socket_.address().front(), '@');
  EXPECT_GT(socket_.address().size(), 1u);
  EXPECT_EQ(socket_.address().find('\0'), std::string::npos);
  EXPECT_NE(another->address(), socket_.address());
}

TEST_F(NotifySocketTest, HandsOverTheSenderTheTextAndTheDescriptors) {
  Pipe pipe;
  Send("READY=1");
  Send("READY=1\nSTATUS=s", {pipe.writer.get(), pipe.writer.get()});
  Send("");
  const auto datagrams = Drain();
  ASSERT_EQ(datagrams.size(), 3u);
  for (const Datagram& datagram : datagrams) {
    EXPECT_EQ(datagram.sender, ::getpid());
    EXPECT_TRUE(datagram.whole);
  }
  EXPECT_EQ(datagrams[0].descriptors.size(), 0u);
  EXPECT_EQ(datagrams[1].text, "READY=1\nSTATUS=s");
  ASSERT_EQ(datagrams[1].descriptors.size(), 2u);
  for (const UniqueFd& fd : datagrams[1].descriptors) EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(datagrams[2].text, "");
  EXPECT_TRUE(Drain().empty());
}

TEST_F(NotifySocketTest, TakesSoManyAtATime) {
  for (const char* text : {"1", "2", "3"}) Send(text);
  EXPECT_EQ(Drain(2).size(), 2u);
  EXPECT_EQ(Drain(2).size(), 1u);
}

TEST_F(NotifySocketTest, ClosesADescriptorWhenAllThatCameBeforeItIsDoneAndBeforeWhatComesAfter) {
  Pipe pipe;
  Send("before");
  Send("BARRIER=1", {pipe.writer.get()});
  Send("after");
  pipe.writer.Reset();
  std::vector<bool> closed;
  socket_.Drain(100, [&](const Datagram&) { closed.push_back(pipe.IsClosed()); });
  EXPECT_THAT(closed, ElementsAre(false, false, true));
}

TEST_F(NotifySocketTest, SaysWhatWasCutOffAndKeepsNoDescriptorOfIt) {
  Pipe pipe;
  Send(std::string(kMaxNotification, 'x'), {pipe.writer.get()});
  Send(std::string(kMaxNotification + 1, 'x'), {pipe.writer.get()});
  pipe.writer.Reset();
  {
    const auto datagrams = Drain();
    ASSERT_EQ(datagrams.size(), 2u);
    EXPECT_TRUE(datagrams[0].whole);
    EXPECT_FALSE(datagrams[1].whole);
  }
  EXPECT_TRUE(pipe.IsClosed());
}

TEST_F(NotifySocketTest, TakesAsManyDescriptorsAsAMessageCanHave) {
  Pipe pipe;
  Send("many", std::vector<int>(253, pipe.writer.get()));
  const auto datagrams = Drain();
  ASSERT_EQ(datagrams.size(), 1u);
  EXPECT_TRUE(datagrams[0].whole);
  EXPECT_EQ(datagrams[0].descriptors.size(), 253u);
}

TEST_F(NotifySocketTest, SaysWhereNotAllDescriptorsCouldBeReceived) {
  Pipe pipe;
  Send("FDSTORE=1", {pipe.writer.get(), pipe.writer.get(), pipe.writer.get()});
  const DescriptorShortage shortage(1);
  const auto datagrams = Drain();
  ASSERT_EQ(datagrams.size(), 1u);
  EXPECT_FALSE(datagrams[0].whole);
  EXPECT_LT(datagrams[0].descriptors.size(), 3u);
}

}  // namespace
}  // namespace rdmabroker::keeper
