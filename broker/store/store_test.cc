// SPDX-License-Identifier: Apache-2.0

#include "broker/store/store.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "broker/core/testing/random_walk.h"
#include "broker/store/records_for_test.h"
#include "dataplane/unique_fd.h"
#include "tests/control/temporary_folder.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

std::unique_ptr<Store> OpenStore(const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(directory, "");
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

Changes All() {
  Changes changes;
  changes.all = true;
  return changes;
}

absl::Status CommitChanges(Store& store, BrokerCore& core) {
  const Changes changes = core.TakeChanges();
  return store.Commit(core.records(), changes, {}, {});
}

// But for the time of the last event, which no commit has where nothing has changed by it.
void ExpectLoads(Store& store, const Records& expected) {
  absl::StatusOr<Stored> loaded = store.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LE(loaded->records.now, expected.now);
  loaded->records.now = expected.now;
  EXPECT_TRUE(loaded->records == expected);
}

class AStore : public testing::Test {
 protected:
  const std::string& directory() const { return folder_.path(); }
  std::string path() const { return directory() + "/records.mdb"; }

 private:
  TemporaryFolder folder_;
};

TEST_F(AStore, HasNothingBeforeTheFirstCommit) {
  const auto store = OpenStore(directory());
  ExpectLoads(*store, Records{});
  ASSERT_TRUE(store->Commit(Records{}, All(), {}, {}).ok());
  ExpectLoads(*store, Records{});
}

TEST_F(AStore, HasEveryFieldThatWasCommitted) {
  const auto store = OpenStore(directory());
  ASSERT_TRUE(store->Commit(FullRecords(), All(), {}, {}).ok());
  ExpectLoads(*store, FullRecords());
}

TEST_F(AStore, HasWhatACoreHasAfterEveryCommit) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const TemporaryFolder folder;
    auto store = OpenStore(folder.path());
    RandomWalk walk(seed);
    Instant last;
    for (int step = 0; step < 150 && !HasFailure(); ++step) {
      // As many events as a turn of the loop may have.
      for (int event = 0; event <= step % 3; ++event) walk.Step();
      const Changes changes = walk.core().TakeChanges();
      const absl::Status committed = store->Commit(walk.core().records(), changes, {}, {});
      ASSERT_TRUE(committed.ok()) << committed;
      ExpectLoads(*store, walk.core().records());
      if (changes != Changes()) last = walk.core().records().now;
      EXPECT_EQ(store->Load()->records.now, last);
    }
  }
}

TEST_F(AStore, GoesOnWithWhatTheProcessBeforeHasCommitted) {
  RandomWalk walk(7);
  for (int life = 0; life < 20; ++life) {
    auto store = OpenStore(directory());
    ExpectLoads(*store, walk.core().records());
    absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(Limits{}, walk.core().records());
    ASSERT_TRUE(restored.ok()) << restored.status();
    walk.core() = *std::move(restored);
    for (int step = 0; step < 20; ++step) {
      ASSERT_TRUE(CommitChanges(*store, walk.core()).ok());
      walk.Step();
    }
    ASSERT_TRUE(CommitChanges(*store, walk.core()).ok());
  }
}

TEST_F(AStore, SaysOfWhichStartOfTheSystemItIs) {
  {
    const auto store = Store::Open(directory(), "a start");
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Commit(FullRecords(), All(), {}, {}).ok());
  }
  const auto store = Store::Open(directory(), "another");
  ASSERT_TRUE(store.ok()) << store.status();
  const absl::StatusOr<Stored> loaded = (*store)->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->boot_id, "a start");
  EXPECT_TRUE(loaded->records == FullRecords());
}

TEST_F(AStore, HasWhatFabricsKnow) {
  const auto store = OpenStore(directory());
  FabricRecords of_fabrics;
  (void)TakeChanges(of_fabrics);
  of_fabrics.endpoints[EndpointId(3)] = "an endpoint";
  of_fabrics.connections[ConnectionId(3)] = std::string("zeros \0 and all", 15);
  of_fabrics.connections[ConnectionId(4)] = "";
  const auto commit_and_load = [&](const Changes& changes) {
    ASSERT_TRUE(store->Commit(FullRecords(), changes, of_fabrics, TakeChanges(of_fabrics)).ok());
    const absl::StatusOr<Stored> loaded = store->Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(loaded->of_fabrics == of_fabrics);
    EXPECT_TRUE(loaded->records == FullRecords());
  };
  commit_and_load(All());
  of_fabrics.endpoints[EndpointId(3)] = "another";
  of_fabrics.endpoints[EndpointId(5)] = "new";
  of_fabrics.connections.erase(ConnectionId(3));
  commit_and_load(Changes{});
  of_fabrics.endpoints.erase(EndpointId(5));
  of_fabrics.connections.erase(ConnectionId(4));
  commit_and_load(Changes{});
  commit_and_load(All());
}

TEST_F(AStore, MayHaveAnEndedSessionOfAnOlderBrokerWhichHasDroppedEventsWithoutCountingThem) {
  Records records = FullRecords();
  SessionRecord& session = records.sessions.at(SessionId(1));
  ASSERT_TRUE(session.ended);
  session.events.clear();
  ASSERT_LT(session.dropped, session.last_event);
  const auto store = OpenStore(directory());
  ASSERT_TRUE(store->Commit(records, All(), {}, {}).ok());
  session.dropped = session.last_event;
  ExpectLoads(*store, records);
}

// A client that never acknowledges, and one whose requests come out of order.
TEST_F(AStore, FollowsTheListsOfASession) {
  const auto store = OpenStore(directory());
  Records records = FullRecords();
  ASSERT_TRUE(store->Commit(records, All(), {}, {}).ok());
  SessionRecord& session = records.sessions.at(SessionId(1));
  Changes changes;
  changes.sessions = {SessionId(1)};
  const auto commit_and_load = [&] {
    ASSERT_TRUE(store->Commit(records, changes, {}, {}).ok());
    ExpectLoads(*store, records);
  };
  for (uint32_t i = 0; i < 3; ++i) {
    session.events.emplace_back(DisconnectEvent{ConnectorId(i), NdkStatus::kSuccess, i});
    session.last_event = EventNumber(session.last_event.value() + 1);
  }
  commit_and_load();
  for (int i = 0; i < 5; ++i) {
    session.events.pop_front();
    session.dropped = EventNumber(session.dropped.value() + 1);
  }
  commit_and_load();
  // Beyond all that were stored, within one commit.
  session.dropped = session.last_event = EventNumber(1000);
  session.events = {SessionEvent(AdapterRemovedEvent{AdapterId(9)})};
  session.last_event = EventNumber(1001);
  commit_and_load();
  KeptAnswer late = session.answers[4];
  late.id = RequestId(late.id.value() + 1);
  session.answers.insert(session.answers.begin() + 5, late);
  commit_and_load();
  session.answers.pop_front();
  session.answers.pop_front();
  session.answers.push_back({RequestId(5000), RequestDigest{1}, {}});
  commit_and_load();
  session.answers.clear();
  session.events.clear();
  session.dropped = session.last_event;
  commit_and_load();
  session.answers.push_back({RequestId(5001), RequestDigest{1}, {}});
  commit_and_load();
  records.sessions.erase(SessionId(1));
  commit_and_load();
  changes.sessions = {SessionId(2)};
  records.sessions.erase(SessionId(2));
  commit_and_load();
}

// Larger than the file is at first, in one commit and in many.
TEST_F(AStore, GrowsWithItsRecords) {
  const auto store = OpenStore(directory());
  Records records;
  ConnectorRecord connector = FullRecords().connectors.at(ConnectorId(6));
  const auto add = [&](uint64_t first, uint64_t last) {
    Changes changes;
    for (uint64_t id = first; id <= last; ++id) {
      connector.id = ConnectorId(id);
      records.connectors[connector.id] = connector;
      changes.connectors.push_back(connector.id);
    }
    const absl::Status committed = store->Commit(records, changes, {}, {});
    ASSERT_TRUE(committed.ok()) << committed;
  };
  add(1, 20'000);
  for (uint64_t id = 20'001; id <= 25'000; ++id) add(id, id);
  ExpectLoads(*store, records);
}

TEST_F(AStore, IsItsOwnersAlone) {
  const auto store = OpenStore(directory());
  ASSERT_TRUE(store->Commit(FullRecords(), All(), {}, {}).ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    struct stat status = {};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 2u);
}

TEST_F(AStore, IsOneBrokersAtATime) {
  auto store = OpenStore(directory());
  const absl::Status second = Store::Open(directory(), "").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable) << second;
  EXPECT_NE(second.message().find(directory()), absl::string_view::npos) << second;
  store.reset();
  EXPECT_TRUE(Store::Open(directory(), "").ok());
}

TEST_F(AStore, WithoutADirectoryNamesIt) {
  const absl::Status opened = Store::Open(directory() + "/none", "").status();
  EXPECT_FALSE(opened.ok());
  EXPECT_NE(opened.message().find(directory() + "/none"), absl::string_view::npos) << opened;
}

// --- The end of the process ---

// In a child: commits one walk's steps and says so, until it is killed.
[[noreturn]] void CommitForEver(const std::string& directory, uint32_t seed, int pipe) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(directory, "");
  if (!store.ok()) ::_exit(1);
  RandomWalk walk(seed);
  for (uint32_t step = 1;; ++step) {
    walk.Step();
    if (!CommitChanges(**store, walk.core()).ok()) ::_exit(1);
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
  }
}

// The last of the numbers that come through the pipe until its end, killing the writer after so many.
uint32_t LastOf(int pipe, uint32_t kill_after, pid_t child) {
  uint32_t step = 0;
  while (::read(pipe, &step, sizeof step) == sizeof step) {
    if (step == kill_after) ::kill(child, SIGKILL);
  }
  return step;
}

TEST_F(AStore, HasEveryCommitOfAProcessThatWasKilled) {
  const uint32_t seed = RandomSeed();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    const TemporaryFolder folder;
    const auto walk_seed = static_cast<uint32_t>(random());
    const auto kill_after = static_cast<uint32_t>(1 + random() % 200);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    UniqueFd from(ends[0]);
    UniqueFd to(ends[1]);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) CommitForEver(folder.path(), walk_seed, to.get());
    to.Reset();
    const uint32_t last = LastOf(from.get(), kill_after, child);
    EXPECT_GE(last, kill_after);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    RandomWalk walk(walk_seed);
    for (uint32_t step = 0; step < last; ++step) walk.Step();
    const auto store = OpenStore(folder.path());
    absl::StatusOr<Stored> loaded = store->Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded->records.now = walk.core().records().now;
    if (loaded->records == walk.core().records()) continue;
    // One commit more may have been made, and not told.
    walk.Step();
    loaded->records.now = walk.core().records().now;
    EXPECT_TRUE(loaded->records == walk.core().records()) << "after " << last << " commits";
  }
}

// --- A full file system ---

// In a mount namespace of the process's own.
void MountSmall(const std::string& directory, const char* options, unsigned long flags) {
  ASSERT_EQ(::mount("tmpfs", directory.c_str(), "tmpfs", flags, options), 0) << std::strerror(errno);
}

class AStoreWithoutRoom : public AStore {
 protected:
  void SetUp() override {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "a mount namespace of one's own needs root: " << std::strerror(errno);
    (void)::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  }
  void TearDown() override {
    store_.reset();
    EXPECT_EQ(::umount(directory().c_str()), 0) << std::strerror(errno);
  }

  // Adds connectors until there is no room for another.
  void Fill(const char* size) {
    ASSERT_NO_FATAL_FAILURE(MountSmall(directory(), size, 0));
    store_ = OpenStore(directory());
    of_fabrics_.endpoints[EndpointId(3)] = "an endpoint";
    of_fabrics_.connections[ConnectionId(3)] = "a connection";
    records_ = FullRecords();
    ASSERT_TRUE(store_->Commit(records_, All(), of_fabrics_, {}).ok());
    ConnectorRecord connector = FullRecords().connectors.at(ConnectorId(6));
    absl::Status committed;
    for (uint64_t id = kFirst; id < 100'000 && committed.ok(); ++id) {
      connector.id = ConnectorId(id);
      records_.connectors[connector.id] = connector;
      Changes changes;
      changes.connectors = {connector.id};
      committed = store_->Commit(records_, changes, of_fabrics_, {});
    }
    EXPECT_EQ(committed.code(), absl::StatusCode::kResourceExhausted) << committed;
    EXPECT_NE(committed.message().find(path()), absl::string_view::npos) << committed;
    EXPECT_NE(committed.message().find("make room"), absl::string_view::npos) << committed;
    before_ = records_;
    before_.connectors.erase(connector.id);
    ExpectLoads(*store_, before_);
  }
  // What has changed is not said: it was to be stored already.
  absl::Status CommitAgain() { return store_->Commit(records_, Changes{}, of_fabrics_, {}); }

  static constexpr uint64_t kFirst = 1000;  // Beyond what FullRecords has.

  std::unique_ptr<Store> store_;
  Records records_;
  FabricRecords of_fabrics_;
  Records before_;  // As of the last commit that was made.
};

TEST_F(AStoreWithoutRoom, StaysAsItIsAndCatchesUpLaterInTheFileThatItHas) {
  ASSERT_NO_FATAL_FAILURE(Fill("size=3m"));
  absl::Status committed = CommitAgain();
  EXPECT_EQ(committed.code(), absl::StatusCode::kResourceExhausted) << committed;
  ExpectLoads(*store_, before_);
  // Of everything something goes, comes and changes meanwhile.
  SessionRecord& session = records_.sessions.at(SessionId(1));
  session.answers.pop_front();
  session.events.pop_front();
  session.dropped = EventNumber(session.dropped.value() + 1);
  session.events.emplace_back(AdapterRemovedEvent{AdapterId(9)});
  session.last_event = EventNumber(session.last_event.value() + 1);
  records_.sessions.erase(SessionId(2));
  records_.connectors.erase(ConnectorId(kFirst));
  ++records_.connectors.at(ConnectorId(kFirst + 1)).successors;
  ++records_.counters.session;
  of_fabrics_.endpoints.erase(EndpointId(3));
  of_fabrics_.connections.erase(ConnectionId(3));
  of_fabrics_.connections[ConnectionId(4)] = "another";
  // Not enough for a second file.
  ASSERT_NO_FATAL_FAILURE(MountSmall(directory(), "size=3500k", MS_REMOUNT));
  committed = CommitAgain();
  EXPECT_TRUE(committed.ok()) << committed;
  ExpectLoads(*store_, records_);
  EXPECT_TRUE(store_->Load()->of_fabrics == of_fabrics_);
  Changes changes;
  changes.sessions = {SessionId(1)};
  session.answers.clear();
  committed = store_->Commit(records_, changes, of_fabrics_, {});
  EXPECT_TRUE(committed.ok()) << committed;
  ExpectLoads(*store_, records_);
}

TEST_F(AStoreWithoutRoom, IsNotTriedAgainWhileItCannotFit) {
  ASSERT_NO_FATAL_FAILURE(Fill("size=3m"));
  // A try would stumble over it.
  ASSERT_EQ(::mkdir((path() + ".new").c_str(), 0700), 0) << std::strerror(errno);
  absl::Status committed = CommitAgain();
  EXPECT_EQ(committed.code(), absl::StatusCode::kResourceExhausted) << committed;
  EXPECT_NE(committed.message().find("make room"), absl::string_view::npos) << committed;
  ExpectLoads(*store_, before_);
  ASSERT_NO_FATAL_FAILURE(MountSmall(directory(), "size=6m", MS_REMOUNT));
  committed = CommitAgain();
  EXPECT_TRUE(committed.ok()) << committed;
  ExpectLoads(*store_, records_);
}

TEST_F(AStoreWithoutRoom, CatchesUpWhereFewRecordsAreLeftOfMany) {
  ASSERT_NO_FATAL_FAILURE(Fill("size=6m"));
  // All over the file, which has no room for copies of so many pages.
  for (uint64_t id = kFirst; id < kFirst + before_.connectors.size(); ++id) {
    if (id % 10 != 0) records_.connectors.erase(ConnectorId(id));
  }
  const absl::Status committed = CommitAgain();
  EXPECT_TRUE(committed.ok()) << committed;
  ExpectLoads(*store_, records_);
}

TEST_F(AStoreWithoutRoom, GrowsOnAFileSystemWithoutALimit) {
  ASSERT_NO_FATAL_FAILURE(MountSmall(directory(), "size=0", 0));
  store_ = OpenStore(directory());
  records_ = FullRecords();
  ASSERT_TRUE(store_->Commit(records_, All(), {}, {}).ok());
  ConnectorRecord connector = FullRecords().connectors.at(ConnectorId(6));
  Changes changes;
  // More than the file has room for at first.
  for (uint64_t id = kFirst; id < kFirst + 10'000; ++id) {
    connector.id = ConnectorId(id);
    records_.connectors[connector.id] = connector;
    changes.connectors.push_back(connector.id);
  }
  const absl::Status committed = store_->Commit(records_, changes, {}, {});
  EXPECT_TRUE(committed.ok()) << committed;
  ExpectLoads(*store_, records_);
}

// --- Setting aside ---

TEST_F(AStore, ThatIsSetAsideStartsAnewAndFewAreKept) {
  const auto store = OpenStore(directory());
  std::set<std::string> names;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store->Commit(FullRecords(), All(), {}, {}).ok());
    const absl::StatusOr<std::string> name = store->SetAside(absl::FromUnixSeconds(1'000'000'000 + i));
    ASSERT_TRUE(name.ok()) << name.status();
    names.insert(*name);
    ExpectLoads(*store, Records{});
  }
  EXPECT_EQ(*names.begin(), path() + ".damaged-20010909T014640.000Z");
  std::set<std::string> expected(std::next(names.begin(), 2), names.end());
  expected.insert(directory() + "/last_commit");
  std::set<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) kept.insert(entry.path());
  EXPECT_EQ(kept, expected);
  ASSERT_TRUE(store->Commit(FullRecords(), All(), {}, {}).ok());
  ExpectLoads(*store, FullRecords());
}

TEST_F(AStore, WithoutAFileCanBeSetAside) {
  const auto store = OpenStore(directory());
  const absl::StatusOr<std::string> name = store->SetAside(absl::UnixEpoch());
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "");
}

}  // namespace
}  // namespace rdmabroker
