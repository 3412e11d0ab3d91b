// SPDX-License-Identifier: Apache-2.0

#include "client/control_socket.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "dataplane/unique_fd.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker::client {
namespace {

using testing::HasSubstr;
using testing::Not;

// A listening Unix socket from which nobody accepts.
UniqueFd Listening(const std::string& path, int backlog) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener.get(), backlog), 0);
  return listener;
}

TEST(NoBroker, TellsABrokerThatIsBusyFromOneThatIsAbsent) {
  const TemporaryFolder folder;
  EXPECT_THAT(NoBroker(folder.path() + "/absent.sock").hint, HasSubstr("start rdma-brokerd"));
  const std::string path = folder.path() + "/busy.sock";
  const UniqueFd listener = Listening(path, 0);
  const std::string first = NoBroker(path).hint;
  // The first look fills the queue.
  const std::string second = NoBroker(path).hint;
  for (const std::string& hint : {first, second}) {
    EXPECT_THAT(hint, HasSubstr(path));
    EXPECT_THAT(hint, HasSubstr("try again"));
    EXPECT_THAT(hint, Not(HasSubstr("start rdma-brokerd")));
  }
}

// The hint for a user who is not in the group `gid`, which owns the socket's folder; `mode` is the folder's.
std::string HintForAStranger(gid_t gid, mode_t mode) {
  const TemporaryFolder above;
  const std::string folder = above.path() + "/closed";
  EXPECT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const UniqueFd listener = Listening(folder + "/control.sock", 1);
  EXPECT_EQ(::chown(folder.c_str(), 0, gid), 0);
  EXPECT_EQ(::chmod(folder.c_str(), mode), 0);
  EXPECT_EQ(::chmod(above.path().c_str(), 0755), 0);
  std::string hint;
  // The user of one thread alone (setuid(2), "C library/kernel differences").
  std::thread([&] {
    constexpr uid_t kStranger = 54321;
    EXPECT_EQ(::syscall(SYS_setresuid, kStranger, kStranger, -1), 0);
    hint = NoBroker(folder + "/control.sock").hint;
  }).join();
  EXPECT_THAT(hint, HasSubstr("54321"));
  return hint;
}

TEST(NoBroker, NamesTheGroupToJoinWhereThatHelps) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const group* const other = ::getgrnam("daemon");
  ASSERT_NE(other, nullptr);
  EXPECT_THAT(HintForAStranger(other->gr_gid, 0750), HasSubstr("usermod --append --groups daemon 54321"));
  EXPECT_THAT(HintForAStranger(other->gr_gid, 0700), Not(HasSubstr("usermod")));
  EXPECT_THAT(HintForAStranger(0, 0750), Not(HasSubstr("usermod")));
}

}  // namespace
}  // namespace rdmabroker::client
