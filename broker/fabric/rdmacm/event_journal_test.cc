// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/event_journal.h"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

using Cookies = std::vector<uint64_t>;

class EventJournalTest : public testing::Test {
 protected:
  EventJournalTest() { Begin(); }

  // Another process, which begins where this one has died.
  void Begin() {
    journal_.reset();
    Settle();
    supervisor_.Restart();
    keep_ = std::make_unique<DescriptorKeep>(supervisor_);
    auto opened = EventJournal::Open(*keep_, loop_, [this] { ++rooms_; });
    ASSERT_TRUE(opened.ok()) << opened.status();
    journal_ = *std::move(opened);
  }
  // The turns of the loop that have something to do.
  void Settle() {
    while (loop_.RunTurn(Loop::Now())) continue;
  }
  // As the kernel writes it.
  static RawCmEvent Raw(uint64_t cookie) {
    rdma_ucm_event_resp kernel = {};
    kernel.uid = cookie;
    kernel.event = static_cast<uint32_t>(CmEventType::kConnectRequest);
    kernel.param.conn.private_data[0] = 77;
    kernel.param.conn.private_data_len = 1;
    RawCmEvent raw = {};
    std::memcpy(static_cast<void*>(&raw), &kernel, sizeof kernel);
    return raw;
  }
  CmEvent Read(uint64_t cookie) {
    CmEvent event;
    const auto read = [cookie](RawCmEvent* into) {
      *into = Raw(cookie);
      return 0;
    };
    EXPECT_EQ(journal_->Next(read, &event), 0);
    return event;
  }
  Cookies Old() {
    Cookies cookies;
    for (const CmEvent& event : journal_->TakeOld()) cookies.push_back(event.cookie);
    return cookies;
  }
  // Those of whoever takes over at this moment.
  Cookies OldOfSuccessor() {
    supervisor_.Restart();
    DescriptorKeep keep(supervisor_);
    Cookies cookies;
    const auto successor = EventJournal::Open(keep, loop_, [] {});
    EXPECT_TRUE(successor.ok()) << successor.status();
    for (const CmEvent& event : (*successor)->TakeOld()) cookies.push_back(event.cookie);
    return cookies;
  }

  FakeSupervisor supervisor_;
  Loop loop_;
  int rooms_ = 0;
  std::unique_ptr<DescriptorKeep> keep_;
  std::unique_ptr<EventJournal> journal_;
};

TEST_F(EventJournalTest, LeavesItsSuccessorTheEventsOfWhichThereIsACopy) {
  const CmEvent first = Read(1);
  Read(2);
  const CmEvent third = Read(3);
  Settle();
  const CmEvent fourth = Read(4);
  Begin();
  EXPECT_EQ(Old(), (Cookies{1, 3, 4})) << "in their order, wherever they lie";
  EXPECT_EQ(first.type, CmEventType::kConnectRequest);
  EXPECT_EQ(first.private_data, Bytes{77});
}

TEST_F(EventJournalTest, ForgetsAnEventAtTheTurnsEnd) {
  Read(1);
  Begin();
  EXPECT_EQ(Old(), Cookies{1}) << "what came of it may not be stored yet";
  Settle();
  Begin();
  EXPECT_EQ(Old(), Cookies{});
}

// One event leaves in the turn before, and two at different places in the turn.
TEST_F(EventJournalTest, HasAnEventUntilWhatWasReportedOfItInItsTurnIsHandled) {
  const auto expect_until_handled = [this](const Cookies& cookies) {
    loop_.AtTurnEnd(Loop::Stage::kHandle, [this, cookies] { EXPECT_EQ(OldOfSuccessor(), cookies); });
    loop_.AtTurnEnd(Loop::Stage::kWrite, [this] { EXPECT_EQ(OldOfSuccessor(), Cookies{}); });
  };
  Read(1);
  expect_until_handled({1});
  ASSERT_TRUE(loop_.RunTurn(Loop::Now()));
  loop_.Post([&] {
    Read(2);
    expect_until_handled({2, 3});
  });
  loop_.StartTimer(Loop::Now(), [&] { Read(3); });
  ASSERT_TRUE(loop_.RunTurn(Loop::Now()));
}

TEST_F(EventJournalTest, ForgetsAtOnceWhatASuccessorMustNotHear) {
  const CmEvent first = Read(1);
  const CmEvent second = Read(2);
  EventJournal::Forget(first);
  Begin();
  EXPECT_EQ(Old(), Cookies{2});
}

TEST_F(EventJournalTest, KeepsAnOldEventOverTheNextDeathWhereNobodyHasDealtWithIt) {
  {
    const CmEvent event = Read(1);
    Begin();
  }
  {
    const std::vector<CmEvent> old = journal_->TakeOld();
    ASSERT_EQ(old.size(), 1U);
    const CmEvent another = Read(2);
    Begin();
  }
  EXPECT_EQ(Old(), (Cookies{1, 2}));
}

TEST_F(EventJournalTest, HasTheEventFromTheMomentAtWhichTheKernelHasWrittenIt) {
  Read(1);
  Settle();
  // Between any two steps of the reading.
  CmEvent event;
  const auto read = [&](RawCmEvent* into) {
    EXPECT_EQ(OldOfSuccessor(), Cookies{}) << "as where the last one was there is none now";
    *into = Raw(2);
    EXPECT_EQ(OldOfSuccessor(), Cookies{2});
    return 0;
  };
  EXPECT_EQ(journal_->Next(read, &event), 0);
  EXPECT_EQ(event.cookie, 2U);
}

TEST_F(EventJournalTest, HasNoEventWhereTheKernelHasNone) {
  CmEvent event;
  EXPECT_EQ(journal_->Next([](RawCmEvent*) { return EAGAIN; }, &event), EAGAIN);
  Begin();
  EXPECT_EQ(Old(), Cookies{});
}

TEST_F(EventJournalTest, IsFullWhereNobodyDealsWithItsEventsAndSaysWhenThereIsRoom) {
  std::vector<CmEvent> events;
  while (!journal_->full()) events.push_back(Read(events.size()));
  EXPECT_EQ(events.size(), EventJournal::kSlots);
  EXPECT_FALSE(journal_->frees_some());
  events.resize(1);
  EXPECT_TRUE(journal_->full());
  EXPECT_TRUE(journal_->frees_some());
  EXPECT_EQ(rooms_, 0);
  Settle();
  EXPECT_FALSE(journal_->full());
  EXPECT_EQ(rooms_, 1);
  events.clear();
  Settle();
  EXPECT_EQ(rooms_, 1);
}

// A version of the journal with another layout: of another size, or told by the number that it begins with.
TEST_F(EventJournalTest, BeginsAnewWhereAnotherVersionHasLeftOneAndSaysSo) {
  struct stat ours = {};
  ASSERT_EQ(::fstat(supervisor_.stored().front().fd.get(), &ours), 0);
  for (const off_t size : {off_t{0}, off_t{4096}, ours.st_size - 8, ours.st_size, ours.st_size + 8}) {
    for (const char* const name : {"j1", "j2"}) {
      journal_.reset();
      ASSERT_TRUE(supervisor_.Remove("j1").ok());
      const UniqueFd other(::memfd_create(name, MFD_CLOEXEC));
      // As if each field of it had a value.
      const std::string bytes(static_cast<size_t>(size), '\x01');
      ASSERT_EQ(::write(other.get(), bytes.data(), bytes.size()), size);
      ASSERT_TRUE(supervisor_.Store(name, other.get()).ok());
      CapturedLog log;
      Begin();
      EXPECT_EQ(log.LinesWith(std::string("than this version does name=") + name).size(), 1U) << size;
      EXPECT_EQ(Old(), Cookies{}) << size;
      const CmEvent event = Read(1);
      Begin();
      ASSERT_EQ(supervisor_.stored().size(), 1U);
      EXPECT_EQ(Old(), Cookies{1}) << size;
    }
  }
}

TEST_F(EventJournalTest, SaysNothingWhereThereIsNoneOrOneOfItsOwn) {
  CapturedLog log;
  Begin();
  journal_.reset();
  ASSERT_TRUE(supervisor_.Remove("j1").ok());
  Begin();
  EXPECT_EQ(log.LinesWith("").size(), 0U);
}

TEST_F(EventJournalTest, BeginsAnewWhereNobodyKnowsWhichIsTheLast) {
  const CmEvent event = Read(1);
  const UniqueFd other(::memfd_create("j2", MFD_CLOEXEC));
  ASSERT_TRUE(supervisor_.Store("j2", other.get()).ok());
  Begin();
  EXPECT_EQ(Old(), Cookies{});
  EXPECT_EQ(supervisor_.stored().size(), 1U);
}

}  // namespace
}  // namespace rdmabroker
