// SPDX-License-Identifier: Apache-2.0

#include "broker/control/caller.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

std::array<UniqueFd, 2> SocketPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A socket whose peer is a thread with these credentials. Needs a root that may become others.
std::array<UniqueFd, 2> SocketPairAs(uid_t uid, gid_t gid, const std::vector<gid_t>& groups, bool* done) {
  std::array<UniqueFd, 2> pair;
  std::thread([&] {
    *done = ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0 &&
            ::syscall(SYS_setresgid, gid, gid, gid) == 0 && ::syscall(SYS_setresuid, uid, uid, uid) == 0;
    pair = SocketPair();
  }).join();
  return pair;
}

TEST(CallerOf, IsWhatTheKernelSaysOfThePeer) {
  const auto pair = SocketPair();
  const auto caller = CallerOf(pair[0].get(), {.daemon_uid = ::geteuid()});
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->identity.uid, ::geteuid());
  EXPECT_EQ(caller->identity.gid, ::getegid());
  EXPECT_EQ(caller->identity.pid, ::getpid());
  EXPECT_TRUE(caller->administrator);
}

TEST(CallerOf, TellsConnectionsApart) {
  const auto one = SocketPair();
  const auto other = SocketPair();
  const auto first = CallerOf(one[0].get(), {});
  const auto second = CallerOf(other[0].get(), {});
  const auto again = CallerOf(one[0].get(), {});
  ASSERT_TRUE(first && second && again);
  EXPECT_NE(first->connection, 0u);
  EXPECT_NE(first->connection, second->connection);
  EXPECT_EQ(first->connection, again->connection);
}

TEST(CallerOf, IsNobodyWhereThereIsNoSocket) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  EXPECT_FALSE(CallerOf(reader.get(), {}));
  EXPECT_FALSE(CallerOf(-1, {}));
}

struct Row {
  const char* who;
  uid_t uid;
  gid_t gid;
  std::vector<gid_t> groups;
  Administrators administrators;
  bool administrator;
};

void ExpectAdministrators(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    bool done = false;
    const auto pair = SocketPairAs(row.uid, row.gid, row.groups, &done);
    if (!done) GTEST_SKIP() << "needs a root that may become other users";
    const auto caller = CallerOf(pair[0].get(), row.administrators);
    ASSERT_TRUE(caller) << row.who;
    EXPECT_EQ(caller->identity.uid, row.uid) << row.who;
    EXPECT_EQ(caller->identity.gid, row.gid) << row.who;
    EXPECT_EQ(caller->administrator, row.administrator) << row.who;
  }
}

TEST(CallerOf, AdministratorsAreRootTheDaemonsUserAndOneGroup) {
  // More groups than are asked for at first.
  std::vector<gid_t> many;
  for (gid_t group = 5000; group < 5300; ++group) many.push_back(group);
  const std::vector<Row> rows = {
      {"root", 0, 0, {}, {.daemon_uid = 7}, true},
      {"the daemon's user", 7, 7, {}, {.daemon_uid = 7}, true},
      {"anybody", 1000, 1000, {}, {.daemon_uid = 7}, false},
      {"anybody in root's group", 1000, 0, {0}, {.daemon_uid = 7}, false},
      {"a member by the own group", 1000, 20, {}, {.daemon_uid = 7, .group = 20}, true},
      {"a member by a supplementary group", 1000, 1000, {3, 20}, {.daemon_uid = 7, .group = 20}, true},
      {"a member of many groups, the last one counting", 1000, 1000, many, {.daemon_uid = 7, .group = 5299}, true},
      {"a member of many others", 1000, 1000, many, {.daemon_uid = 7, .group = 5300}, false},
      {"a member of none", 1000, 1000, {}, {.daemon_uid = 7, .group = 20}, false},
  };
  ExpectAdministrators(rows);
}

// Users of other user namespaces have the overflow uid, all of them.
TEST(ACallerWithTheOverflowUid, IsNoUserButItsOwnProcess) {
  Caller caller{.identity = {OverflowUid(), OverflowUid(), 10}};
  EXPECT_TRUE(caller.IsUserOf({OverflowUid(), OverflowUid(), 10}));
  EXPECT_FALSE(caller.IsUserOf({OverflowUid(), OverflowUid(), 11}));
  EXPECT_FALSE(caller.IsUserOf({1000, 1000, 10}));
  caller.identity.pid = 0;
  EXPECT_FALSE(caller.IsUserOf({OverflowUid(), OverflowUid(), 0})) << "processes that cannot be told apart";
  caller.identity = {1000, 1000, 10};
  EXPECT_TRUE(caller.IsUserOf({1000, 1000, 11}));
  caller.spiffe_id = "spiffe://a/b";
  EXPECT_FALSE(caller.IsUserOf({1000, 1000, 10})) << "a caller over TCP is no user of this machine";
}

TEST(CallerOf, NobodyAdministersByTheOverflowUid) {
  ExpectAdministrators({{"another namespace's user", OverflowUid(), 1000, {}, {.daemon_uid = OverflowUid()}, false}});
}

TEST(CallerOf, RootIsNoAdministratorWhereTheKeySaysSo) {
  ExpectAdministrators({
      {"root", 0, 0, {}, {.daemon_uid = 7, .root = false}, false},
      {"root as a member", 0, 0, {20}, {.daemon_uid = 7, .group = 20, .root = false}, true},
      {"the daemon's user", 7, 7, {}, {.daemon_uid = 7, .root = false}, true},
      {"the daemon's user, who is root", 0, 0, {}, {.daemon_uid = 0, .root = false}, true},
  });
}

}  // namespace
}  // namespace rdmabroker
