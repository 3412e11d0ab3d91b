// SPDX-License-Identifier: Apache-2.0

#include "broker/survival/survival.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "broker/core/messages.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/loop.h"
#include "broker/store/store.h"
#include "tests/captured_log.h"
#include "tests/children_end_by.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class SurvivalTest : public testing::Test {
 protected:
  std::string directory() const { return folder_.path() + "/state"; }
  std::string records() const { return directory() + "/records.mdb"; }
  // A process of its own.
  absl::StatusOr<std::unique_ptr<Survival>> Open() {
    keeps_.push_back(std::make_unique<DescriptorKeep>(supervisor_));
    return Survival::Open(directory(), Limits{}, *keeps_.back());
  }
  // A process that has handled these events and died.
  void Live(const std::vector<Event>& events) {
    auto life = Open();
    ASSERT_TRUE(life.ok()) << life.status();
    BrokerCore core = (*life)->TakeCore();
    for (const Event& event : events) (void)core.Handle(Loop::Now(), event);
    (*life)->Commit(core);
    supervisor_.Restart();
  }
  // The sessions that the next process finds.
  size_t SessionsOfTheNext() {
    auto life = Open();
    EXPECT_TRUE(life.ok()) << life.status();
    return life.ok() ? (*life)->TakeCore().records().sessions.size() : 0;
  }
  uint64_t LineageOfTheNext() {
    auto life = Open();
    EXPECT_TRUE(life.ok()) << life.status();
    return life.ok() ? (*life)->TakeCore().records().lineage : 0;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const KeptDescriptor& kept : supervisor_.stored()) names.push_back(kept.name);
    return names;
  }

  TemporaryFolder folder_;
  FakeSupervisor supervisor_;
  std::vector<std::unique_ptr<DescriptorKeep>> keeps_;
};

TEST_F(SurvivalTest, BeginsWithNothingInAFolderOfItsOwn) {
  const auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  Records records = (*life)->TakeCore().records();
  EXPECT_NE(std::exchange(records.lineage, 0), 0u);
  EXPECT_NE(std::exchange(records.counters.id_key, 0), 0u);
  EXPECT_TRUE(records == Records{});
  EXPECT_TRUE((*life)->begins_anew());
  struct stat made = {};
  ASSERT_EQ(::stat(directory().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
}

TEST_F(SurvivalTest, GoesOnWithWhatTheCoreKnew) {
  Live({OpenSession{StreamId(1), {.uid = 7}, {}}, OpenSession{StreamId(2), {}, {}}});
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  EXPECT_FALSE((*life)->begins_anew());
  BrokerCore core = (*life)->TakeCore();
  std::vector<uint32_t> uids;
  for (const auto& [id, session] : core.records().sessions) uids.push_back(session.identity.uid);
  EXPECT_THAT(uids, UnorderedElementsAre(0, 7));
}

TEST_F(SurvivalTest, GivesIdsOfItsOwnKindWhereAnEarlierBrokerCounted) {
  {
    auto life = Open();
    ASSERT_TRUE(life.ok()) << life.status();
    BrokerCore core = (*life)->TakeCore();
    core = BrokerCore(Limits{}, core.records().lineage);
    for (const uint64_t stream : {1, 2}) (void)core.Handle(Loop::Now(), OpenSession{StreamId(stream), {}, {}});
    (*life)->Commit(core);
  }
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  EXPECT_TRUE(core.records().sessions.contains(SessionId(2)));
  const Counters before = core.records().counters;
  EXPECT_NE(before.id_key, 0u);
  (void)core.Handle(Loop::Now(), OpenSession{StreamId(3), {}, {}});
  EXPECT_EQ(core.records().sessions.size(), 3u);
  EXPECT_FALSE(core.records().sessions.contains(SessionId(3)));
  (*life)->Commit(core);
  life->reset();
  life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  EXPECT_EQ((*life)->TakeCore().records().counters.id_key, before.id_key) << "it stays";
}

TEST_F(SurvivalTest, GoesOnWithWhatFabricsKnewOfTheCoresObjects) {
  Device device;
  device.id = DeviceId(1);
  device.name = "nic0";
  device.addresses = {{.bytes = {192, 0, 2, 1}}};
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  const Records& records = core.records();
  const auto handle = [&core](const Event& event) { (void)core.Handle(Loop::Now(), event); };
  handle(FabricReport(DeviceChanged{device}));
  handle(OpenSession{StreamId(1), {}, {}});
  const SessionId session = records.sessions.begin()->first;
  handle(ClientRequest{session, RequestId(1), EventNumber(), OpenAdapter{"nic0", kNdkVersion}});
  const ReservePort reserve{records.adapters.begin()->first, {device.addresses[0], 4420}};
  handle(ClientRequest{session, RequestId(2), EventNumber(), reserve});
  const EndpointId endpoint = records.endpoints.begin()->first;
  (*life)->of_fabrics().endpoints[endpoint] = "first";
  (*life)->of_fabrics().endpoints[EndpointId(endpoint.value() + 1)] = "of an endpoint that there is not";
  (*life)->Commit(core);
  life->reset();
  CapturedLog log;
  const auto next = Open();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(log.LinesWith("of objects that had ended is dropped endpoints=1 connections=0").size(), 1u);
  EXPECT_EQ((*next)->of_fabrics().endpoints.size(), 1u);
  EXPECT_EQ((*next)->of_fabrics().endpoints.at(endpoint), "first");
}

TEST_F(SurvivalTest, HandsDescriptorsOnUntilWhatForgetsThemIsStored) {
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  (*life)->descriptors().Keep("a", UniqueFd(::memfd_create("a", MFD_CLOEXEC)).get());
  (*life)->descriptors().Forget("a");
  EXPECT_THAT(Names(), ElementsAre("a"));
  (*life)->Commit(core);
  EXPECT_THAT(Names(), IsEmpty());
}

// A full file system, for one: the file cannot be replaced.
TEST_F(SurvivalTest, WhatCannotBeStoredIsStoredLater) {
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  (*life)->Commit(core);
  (*life)->descriptors().Keep("a", UniqueFd(::memfd_create("a", MFD_CLOEXEC)).get());
  std::filesystem::rename(directory(), directory() + ".away");
  std::ofstream(directory()) << "in the way";
  (void)core.Handle(Loop::Now(), OpenSession{StreamId(1), {}, {}});
  (*life)->descriptors().Forget("a");
  for (int i = 0; i < 3; ++i) {
    core = *BrokerCore::Restore(Limits{}, core.records());
    (*life)->Commit(core);
    EXPECT_THAT(Names(), ElementsAre("a"));
  }
  std::filesystem::remove(directory());
  std::filesystem::rename(directory() + ".away", directory());
  (*life)->Commit(core);
  EXPECT_THAT(Names(), IsEmpty());
  life->reset();
  EXPECT_EQ(SessionsOfTheNext(), 1u);
}

TEST_F(SurvivalTest, ADamagedStoreIsSetAsideAndABrokerBeginsAnew) {
  Live({OpenSession{StreamId(1), {}, {}}});
  const uint64_t lineage = LineageOfTheNext();
  EXPECT_NE(lineage, 0u);
  EXPECT_EQ(LineageOfTheNext(), lineage);
  std::filesystem::resize_file(records(), 5000);
  EXPECT_EQ(SessionsOfTheNext(), 0u);
  size_t damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    damaged += entry.path().string().find("records.mdb.damaged-") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(damaged, 1u);
  EXPECT_NE(LineageOfTheNext(), lineage) << "who returns would be told that his session is over";
  Live({OpenSession{StreamId(1), {}, {}}});
  EXPECT_EQ(SessionsOfTheNext(), 1u);
}

TEST_F(SurvivalTest, AStoreThatCannotBeReadNowIsLeftToTheNextProcess) {
  Live({OpenSession{StreamId(1), {}, {}}});
  const UniqueFd file(::memfd_create("", MFD_CLOEXEC));
  ASSERT_TRUE(supervisor_.Store("cm1", file.get()).ok());
  supervisor_.Restart();
  {
    const ChildrenEndBy killed(SIGKILL);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kInternal);
    supervisor_.Restart();
  }
  EXPECT_THAT(Names(), ElementsAre("cm1"));
  EXPECT_EQ(SessionsOfTheNext(), 1u);
}

TEST_F(SurvivalTest, RecordsOfTheFutureAreSetAside) {
  auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  (void)core.Handle(Loop::Now() + absl::Hours(1), OpenSession{StreamId(1), {}, {}});
  (*life)->Commit(core);
  life->reset();
  EXPECT_EQ(SessionsOfTheNext(), 0u) << "a core whose time goes back ends the process";
}

TEST_F(SurvivalTest, RecordsOfBeforeTheSystemsStartAreNone) {
  Live({OpenSession{StreamId(1), {}, {}}});
  {
    // As if another kernel had been running.
    const auto store = Store::Open(directory(), "another start");
    ASSERT_TRUE(store.ok()) << store.status();
    const auto stored = (*store)->Load();
    ASSERT_TRUE(stored.ok()) << stored.status();
    Changes all;
    all.all = true;
    ASSERT_TRUE((*store)->Commit(stored->records, all, {}, {}).ok());
  }
  EXPECT_EQ(SessionsOfTheNext(), 0u);
}

TEST_F(SurvivalTest, OneBrokerHasAFolder) {
  const auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SurvivalTest, AFolderThatIsNotTheDaemonsAloneIsRefused) {
  std::filesystem::create_directory(directory());
  const std::string elsewhere = folder_.path() + "/elsewhere";
  for (const mode_t mode : {0770, 0705}) {
    ASSERT_EQ(::chmod(directory().c_str(), mode), 0);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition) << mode;
  }
  std::filesystem::rename(directory(), elsewhere);
  ASSERT_EQ(::chmod(elsewhere.c_str(), 0700), 0);
  std::filesystem::create_symlink(elsewhere, directory());
  const absl::Status linked = Open().status();
  EXPECT_EQ(linked.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(linked.message()), HasSubstr(directory() + ": is not a folder of the daemon's user alone"));
}

TEST_F(SurvivalTest, AFolderThatCannotBeMadeIsNamedWithItsKey) {
  DescriptorKeep keep(supervisor_);
  const auto nowhere = Survival::Open(folder_.path() + "/no/where", Limits{}, keep);
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr(folder_.path() + "/no/where: cannot be made"));
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("control.state_directory"));
}

TEST_F(SurvivalTest, TakesOverWhereThereAreRecordsOrDescriptorsThatMayBelongToConnections) {
  const auto takes_over = [&] {
    const auto life = Open();
    EXPECT_TRUE(life.ok()) << life.status();
    return life.ok() && (*life)->takes_over();
  };
  EXPECT_FALSE(takes_over());
  const UniqueFd file(::memfd_create("", MFD_CLOEXEC));
  ASSERT_TRUE(supervisor_.Store("control.sock", file.get()).ok());
  supervisor_.Restart();
  EXPECT_FALSE(takes_over());
  const UniqueFd other(::memfd_create("", MFD_CLOEXEC));
  ASSERT_TRUE(supervisor_.Store("cm1", other.get()).ok());
  supervisor_.Restart();
  EXPECT_TRUE(takes_over());
}

TEST_F(SurvivalTest, TakesOverTheSessionsOfTheProcessBefore) {
  Live({OpenSession{StreamId(1), {}, {}}});
  const auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  EXPECT_TRUE((*life)->takes_over());
}

TEST_F(SurvivalTest, TellsOfEachCommitThatHadSomethingToStore) {
  const auto life = Open();
  ASSERT_TRUE(life.ok()) << life.status();
  BrokerCore core = (*life)->TakeCore();
  std::vector<bool> stored;
  (*life)->OnCommit([&](absl::Duration took, bool fine) {
    EXPECT_GE(took, absl::ZeroDuration());
    stored.push_back(fine);
  });
  EXPECT_TRUE((*life)->Commit(core));
  EXPECT_EQ(stored, std::vector<bool>({true}));
  EXPECT_TRUE((*life)->Commit(core));
  EXPECT_EQ(stored.size(), 1u);
  (void)core.Handle(Loop::Now(), OpenSession{StreamId(1), {}, {}});
  EXPECT_TRUE((*life)->Commit(core));
  EXPECT_EQ(stored, std::vector<bool>({true, true}));
}

}  // namespace
}  // namespace rdmabroker
