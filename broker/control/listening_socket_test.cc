// SPDX-License-Identifier: Apache-2.0

#include "broker/control/listening_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "broker/runtime/fake_supervisor.h"
#include "dataplane/testing/descriptor_shortage.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;

class ListenOnUnixSocketTest : public testing::Test {
 protected:
  // A socket's path has at most 107 bytes, which the test's own folder may have already.
  ListenOnUnixSocketTest() : folder_("/tmp/rdma-broker-XXXXXX") { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~ListenOnUnixSocketTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/s"; }
  ListeningSocket Wanted(int type = SOCK_STREAM, std::optional<gid_t> group = std::nullopt) const {
    return {path(), type, 0660, group};
  }
  absl::StatusOr<UniqueFd> Listen(std::optional<gid_t> group = std::nullopt) {
    return ListenOnUnixSocket(Wanted(SOCK_STREAM, group));
  }
  bool Connects(int type = SOCK_STREAM) const {
    sockaddr_un address = {.sun_family = AF_UNIX};
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    const UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  std::string folder_;
};

TEST_F(ListenOnUnixSocketTest, MakesASocketWithTheMode) {
  const mode_t former = ::umask(0077);
  const auto listener = Listen();
  EXPECT_EQ(::umask(former), 0077u);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat made = {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_TRUE(S_ISSOCK(made.st_mode));
  EXPECT_EQ(made.st_mode & 0777, 0660u);
  EXPECT_TRUE(Connects());
}

TEST_F(ListenOnUnixSocketTest, TheNameGoesWithItsOwner) {
  const auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  { const SocketName name(path()); }
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(ListenOnUnixSocketTest, ANameThatIsAnothersByNowStays) {
  auto listener = Listen();
  {
    const SocketName name(path());
    // Held open, so that the new socket cannot have the inode of the old one.
    std::filesystem::rename(path(), path() + ".old");
    listener = Listen();
    ASSERT_TRUE(listener.ok()) << listener.status();
  }
  EXPECT_TRUE(Connects());
}

TEST_F(ListenOnUnixSocketTest, GivesTheSocketToTheGroup) {
  const gid_t group = ::getgid();
  ASSERT_TRUE(Listen(group).ok());
  struct stat made = {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_EQ(made.st_gid, group);
}

TEST_F(ListenOnUnixSocketTest, AStaleSocketIsReplaced) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    ASSERT_TRUE(ListenOnUnixSocket(Wanted(type)).ok());
    EXPECT_FALSE(Connects(type));
    const auto listener = ListenOnUnixSocket(Wanted(type));
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(Connects(type));
  }
}

TEST_F(ListenOnUnixSocketTest, ALiveSocketIsLeftAlone) {
  const auto first = Listen();
  ASSERT_TRUE(first.ok());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const auto second = ListenOnUnixSocket(Wanted(type));
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr(path() + ": a running broker listens on it"));
  }
  EXPECT_TRUE(Connects());
}

TEST_F(ListenOnUnixSocketTest, WithoutDescriptorsNobodyIsSaidToListen) {
  ASSERT_TRUE(Listen().ok()) << "leaves its name";
  const DescriptorShortage shortage;
  const auto refused = Listen();
  EXPECT_NE(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("Too many open files"));
}

// Each round begins with a stale socket, which all of them find and want to replace.
TEST_F(ListenOnUnixSocketTest, OfManyThatStartAtOnceExactlyOneListensAndIsReached) {
  constexpr int kRounds = 200;
  constexpr int kStarts = 8;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(Listen().ok());
    std::vector<absl::StatusOr<UniqueFd>> listeners(kStarts);
    std::barrier start(kStarts);
    std::vector<std::thread> threads;
    for (auto& listener : listeners) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        listener = Listen();
      });
    }
    for (std::thread& thread : threads) thread.join();
    int listening = 0;
    for (const auto& listener : listeners) {
      listening += listener.ok() ? 1 : 0;
      EXPECT_TRUE(listener.ok() || absl::IsAlreadyExists(listener.status())) << listener.status();
    }
    ASSERT_EQ(listening, 1) << "round " << round;
    ASSERT_TRUE(Connects()) << "round " << round;
  }
}

TEST_F(ListenOnUnixSocketTest, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(path()) << "precious";
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
  std::filesystem::remove(path());
  std::filesystem::create_symlink("/etc/passwd", path());
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
}

TEST_F(ListenOnUnixSocketTest, APathThatIsNoneIsRefusedWithItsName) {
  const std::string longest = folder_ + "/" + std::string(108, 'x');
  const std::string nowhere = folder_ + "/nowhere/s";
  for (const std::string& path : {std::string(), longest, nowhere}) {
    const auto listener = ListenOnUnixSocket({path, SOCK_STREAM, 0660, std::nullopt});
    EXPECT_FALSE(listener.ok());
    EXPECT_THAT(std::string(listener.status().message()), HasSubstr(path + ": "));
  }
}

// Lives that follow each other under one supervisor.
class KeptSocketsTest : public ListenOnUnixSocketTest {
 protected:
  // As the process before this one has gone.
  absl::StatusOr<UniqueFd> ListenAgain(const ListeningSocket& wanted) {
    supervisor_.Restart();
    DescriptorKeep keep(supervisor_);
    KeptSockets kept(keep);
    absl::StatusOr<UniqueFd> listener = kept.Listen(wanted, "control.sock");
    kept.ForgetTheRest();
    EXPECT_EQ(supervisor_.stored().size(), 1u) << "kept for the next one, once";
    return listener;
  }
  UniqueFd Connect() const {
    sockaddr_un address = {.sun_family = AF_UNIX};
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  FakeSupervisor supervisor_;
};

TEST_F(KeptSocketsTest, WhoConnectsBetweenTwoProcessesIsAcceptedByTheNext) {
  ASSERT_TRUE(ListenAgain(Wanted()).ok());
  const UniqueFd client = Connect();
  const auto listener = ListenAgain(Wanted());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

TEST_F(KeptSocketsTest, HasTheModeAndTheGroupThatAreConfiguredNow) {
  ASSERT_TRUE(ListenAgain(Wanted()).ok());
  ListeningSocket other = Wanted(SOCK_STREAM, ::getgid());
  other.mode = 0600;
  ASSERT_TRUE(ListenAgain(other).ok());
  struct stat made = {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
  EXPECT_EQ(made.st_gid, ::getgid());
}

TEST_F(KeptSocketsTest, IsMadeAnewWhereWhatIsKeptIsNotIt) {
  struct Row {
    const char* what;
    std::function<UniqueFd()> kept;
  };
  const Row rows[] = {
      {"no socket", [] { return UniqueFd(::memfd_create("kept", MFD_CLOEXEC)); }},
      {"of another type",
       [&] {
         UniqueFd fd = *ListenOnUnixSocket(Wanted(SOCK_SEQPACKET));
         std::filesystem::remove(path());
         return fd;
       }},
      {"not listening", [] { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }},
      {"elsewhere",
       [&] {
         EXPECT_TRUE(Listen().ok()) << "a stale one is where it should be";
         return *ListenOnUnixSocket({path() + "2", SOCK_STREAM, 0660, std::nullopt});
       }},
      {"without its name",
       [&] {
         UniqueFd fd = *Listen();
         std::filesystem::remove(path());
         return fd;
       }},
  };
  for (const Row& row : rows) {
    ASSERT_TRUE(supervisor_.Remove("socket.control.sock").ok());
    ASSERT_TRUE(supervisor_.Store("socket.control.sock", row.kept().get()).ok());
    const auto listener = ListenAgain(Wanted());
    ASSERT_TRUE(listener.ok()) << row.what << ": " << listener.status();
    EXPECT_TRUE(Connects()) << row.what;
    std::filesystem::remove(path());
  }
}

// One that systemd has made by its own unit comes at every start, and is not kept besides.
TEST_F(KeptSocketsTest, OneOfTheSupervisorsOwnIsListenedOn) {
  const UniqueFd made = *Listen();
  ASSERT_TRUE(supervisor_.Store("socket", made.get()).ok());
  const auto listener = ListenAgain(Wanted());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(AreSameFile(listener->get(), made.get()));
}

TEST_F(KeptSocketsTest, OneOfTheSupervisorsOwnDoesNotBlock) {
  const UniqueFd made = *Listen();
  ASSERT_EQ(::fcntl(made.get(), F_SETFL, 0), 0);
  ASSERT_TRUE(supervisor_.Store("socket", made.get()).ok());
  const auto listener = ListenAgain(Wanted());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_NE(::fcntl(listener->get(), F_GETFL) & O_NONBLOCK, 0);
}

// A start that fails leaves what it has found to the next one.
TEST_F(KeptSocketsTest, StayKeptWhereOneCannotBeListenedOn) {
  ASSERT_TRUE(ListenAgain(Wanted()).ok());
  supervisor_.Restart();
  {
    DescriptorKeep keep(supervisor_);
    KeptSockets kept(keep);
    EXPECT_FALSE(kept.Listen({folder_ + "/nowhere/s", SOCK_STREAM, 0660, std::nullopt}, "handoff.sock").ok());
  }
  EXPECT_EQ(supervisor_.stored().size(), 1u);
}

}  // namespace
}  // namespace rdmabroker
