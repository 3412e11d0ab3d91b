// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

// More than begins at a time.
constexpr int kMany = 10 * kPoolThreads;

Towards Of(uint32_t uid, uint64_t session, std::string peer, PeerWait wait = PeerWait::kTimed) {
  return {wait, uid, SessionId(session), std::move(peer)};
}

class WorkQueueTest : public ::testing::Test {
 protected:
  WorkId Add(std::optional<Towards> towards) {
    const WorkId id{++last_id_};
    queue_.Add({id, std::move(towards), nullptr, nullptr});
    return id;
  }
  // What begins until nothing does.
  std::vector<WorkItem> BeginAll() {
    std::vector<WorkItem> begun;
    while (std::optional<WorkItem> item = queue_.Begin()) begun.push_back(*std::move(item));
    return begun;
  }
  WorkId BeginOne() {
    const std::optional<WorkItem> item = queue_.Begin();
    return item ? item->id : WorkId::kNone;
  }

  WorkQueue queue_;
  uint64_t last_id_ = 0;
};

// Work that waits for peers, more than enough of each; how much of it begins; and what goes on beside it.
struct Share {
  std::string name;
  std::vector<Towards> silent;
  int WorkShares::*most = nullptr;
  std::vector<Towards> others;
};
void PrintTo(const Share& share, std::ostream* out) { *out << share.name; }

std::vector<Share> Shares() {
  std::vector<Share> shares = {
      {"OneSessionsPeer", {Of(1, 1, "dead")}, &WorkShares::of_lane, {Of(1, 1, "alive"), Of(1, 2, "dead")}},
      {"OneSessionsPeers",
       {Of(1, 1, "dead"), Of(1, 1, "dying"), Of(1, 1, "gone")},
       &WorkShares::of_session,
       {Of(1, 2, "dead"), Of(1, 2, "alive")}},
      {"OneUsersSessions", {}, &WorkShares::of_user, {Of(2, 100, "dead 1"), Of(2, 100, "alive")}},
      {"ManyUsersPeer", {}, &WorkShares::of_peer, {Of(1, 1, "alive"), Of(100, 100, "alive")}},
      {"ManyUsersPeers", {}, &WorkShares::all, {}},
  };
  for (uint32_t i = 1; i <= kPoolThreads; ++i) {
    const std::string own = "dead " + std::to_string(i);
    shares[2].silent.push_back(Of(1, i, own));
    shares[3].silent.push_back(Of(i, i, "dead"));
    shares[4].silent.push_back(Of(i, i, own));
  }
  return shares;
}

class WorkQueueShare : public WorkQueueTest, public ::testing::WithParamInterface<std::tuple<Share, PeerWait>> {};

TEST_P(WorkQueueShare, IsWhatSilentPeersHaveAtMostAndOthersGoOnBesideIt) {
  auto [share, wait] = GetParam();
  const int most = kWorkShares[static_cast<size_t>(wait)].*share.most;
  for (Towards& towards : share.silent) {
    towards.wait = wait;
    for (int i = 0; i < kMany; ++i) Add(towards);
  }
  EXPECT_EQ(BeginAll().size(), static_cast<size_t>(most));
  for (Towards& other : share.others) {
    other.wait = wait;
    const WorkId id = Add(other);
    EXPECT_EQ(BeginOne(), id) << other.uid << " " << other.peer;
  }
  Towards of_other_kind = share.silent.front();
  of_other_kind.wait = wait == PeerWait::kTimed ? PeerWait::kUntimed : PeerWait::kTimed;
  const WorkId of_others = Add(of_other_kind);
  EXPECT_EQ(BeginOne(), of_others);
  const WorkId of_nobody = Add(std::nullopt);
  EXPECT_EQ(BeginOne(), of_nobody);
  EXPECT_EQ(BeginOne(), WorkId::kNone);
  // What ends makes room for one.
  queue_.End(share.silent.front());
  EXPECT_EQ(BeginAll().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Of, WorkQueueShare,
                         ::testing::Combine(::testing::ValuesIn(Shares()),
                                            ::testing::Values(PeerWait::kTimed, PeerWait::kUntimed)),
                         [](const auto& share) {
                           return std::get<0>(share.param).name +
                                  (std::get<1>(share.param) == PeerWait::kTimed ? "Timed" : "Untimed");
                         });

TEST_F(WorkQueueTest, AllPeersTogetherLeaveThreadsForWhatWaitsForNobody) {
  int most = 0;
  for (const WorkShares& shares : kWorkShares) most += shares.all;
  EXPECT_LT(most, kPoolThreads);
  for (int i = 0; i < kMany; ++i) Add(std::nullopt);
  EXPECT_EQ(BeginAll().size(), static_cast<size_t>(kPoolThreads));
}

// Who has much waiting, and who comes late with one piece.
struct LateComer {
  std::string name;
  std::vector<Towards> many;
  Towards late;
};
void PrintTo(const LateComer& comer, std::ostream* out) { *out << comer.name; }

class WorkQueueTurns : public WorkQueueTest, public ::testing::WithParamInterface<LateComer> {};

TEST_P(WorkQueueTurns, LetALateComerBeginBeforeAllThatCameEarlier) {
  for (const Towards& towards : GetParam().many) {
    for (int i = 0; i < kMany; ++i) Add(towards);
  }
  std::vector<WorkItem> begun = BeginAll();
  const WorkId late = Add(GetParam().late);
  ASSERT_EQ(BeginOne(), WorkId::kNone) << "it has a share of its own";
  size_t ended = 0;
  bool has_begun = false;
  while (!has_begun && ended < begun.size()) {
    queue_.End(begun[ended++].towards);
    for (WorkItem& item : BeginAll()) has_begun |= item.id == late;
  }
  EXPECT_TRUE(has_begun);
}

INSTANTIATE_TEST_SUITE_P(
    Of, WorkQueueTurns,
    ::testing::Values(
        LateComer{"AnotherUser",
                  {Of(1, 1, "a"), Of(1, 2, "b"), Of(1, 3, "c"), Of(1, 4, "d"), Of(1, 1, "e"), Of(1, 2, "f"),
                   Of(2, 5, "a"), Of(2, 6, "b"), Of(2, 7, "c"), Of(2, 8, "d"), Of(2, 5, "e"), Of(2, 6, "f")},
                  Of(3, 9, "alive")},
        LateComer{"AnotherSession",
                  {Of(1, 1, "a"), Of(1, 2, "b"), Of(1, 3, "c"), Of(1, 1, "d"), Of(1, 2, "e"), Of(1, 3, "f")},
                  Of(1, 9, "alive")},
        LateComer{"AnotherPeer", {Of(1, 1, "a"), Of(1, 1, "b")}, Of(1, 1, "alive")},
        LateComer{"AnotherUserOfThePeer", {Of(1, 1, "a"), Of(2, 2, "a"), Of(3, 3, "a"), Of(4, 4, "a")}, Of(5, 5, "a")}),
    [](const auto& comer) { return comer.param.name; });

TEST_F(WorkQueueTest, ThatTheLastPieceOfWhatAPeerHoldsIsCancelledDelaysNobody) {
  for (uint32_t user = 1; user <= kPoolThreads; ++user) Add(Of(user, user, "dead"));
  std::vector<WorkItem> begun = BeginAll();
  const WorkId gone = Add(Of(100, 100, "dead"));
  EXPECT_EQ(BeginOne(), WorkId::kNone) << "its peer has all of its share";
  EXPECT_TRUE(queue_.Cancel(gone));
  EXPECT_FALSE(queue_.Cancel(gone));
  EXPECT_FALSE(queue_.Cancel(begun.front().id)) << "it has begun";
  for (size_t ended = 0; ended < begun.size(); ++ended) {
    queue_.End(begun[ended].towards);
    for (WorkItem& item : BeginAll()) begun.push_back(std::move(item));
  }
  EXPECT_EQ(begun.size(), static_cast<size_t>(kPoolThreads)) << "all but the one that was cancelled";
}

// Each step takes as long as with a short queue; were it walked, this would take hours.
TEST_F(WorkQueueTest, ALongQueueTowardsSilentPeersIsInNobodysWay) {
  constexpr int kWaiting = 100'000;
  std::vector<WorkId> waiting;
  for (int i = 0; i < kWaiting; ++i) waiting.push_back(Add(Of(1, 1, "dead")));
  for (int i = 0; i < kWaiting; ++i) waiting.push_back(Add(Of(1, 2, "dead " + std::to_string(i))));
  const std::vector<WorkItem> begun = BeginAll();
  ASSERT_LE(begun.size(), size_t{kPoolThreads});
  for (int i = 0; i < kWaiting; ++i) {
    const Towards towards = Of(1, 3, "alive");
    const WorkId id = Add(towards);
    ASSERT_EQ(BeginOne(), id);
    queue_.End(towards);
    ASSERT_EQ(BeginOne(), WorkId::kNone);
  }
  for (auto last = waiting.rbegin(); last != waiting.rend(); ++last) {
    const bool has_begun = std::any_of(begun.begin(), begun.end(), [&](const auto& item) { return item.id == *last; });
    ASSERT_EQ(queue_.Cancel(*last), !has_begun);
  }
  for (const WorkItem& item : begun) queue_.End(item.towards);
  EXPECT_EQ(BeginOne(), WorkId::kNone);
}

// What a walk through everything would find.
class Model {
 public:
  void Add(WorkId id, const Towards& towards) { waiting_.emplace(id, towards); }
  bool Cancel(WorkId id) { return waiting_.erase(id) != 0; }
  void Begin(WorkId id) {
    const auto found = waiting_.find(id);
    ASSERT_NE(found, waiting_.end());
    ASSERT_TRUE(HasRoom(found->second));
    for (const auto& [earlier, towards] : waiting_) {
      ASSERT_FALSE(earlier < id && KeysOf(towards) == KeysOf(found->second)) << "before another of its kind";
    }
    for (const std::string& key : KeysOf(found->second)) ++begun_[key];
    waiting_.erase(found);
  }
  void End(const Towards& towards) {
    for (const std::string& key : KeysOf(towards)) --begun_[key];
  }
  size_t waiting() const { return waiting_.size(); }
  bool Idle() const {
    return std::none_of(waiting_.begin(), waiting_.end(), [this](const auto& item) { return HasRoom(item.second); });
  }

 private:
  static std::vector<std::string> KeysOf(const Towards& towards) {
    const std::string wait = std::to_string(static_cast<int>(towards.wait));
    const std::string session = std::to_string(towards.session.value());
    return {wait, wait + " user " + std::to_string(towards.uid), wait + " session " + session,
            wait + " session " + session + " peer " + towards.peer, wait + " peer " + towards.peer};
  }
  bool HasRoom(const Towards& towards) const {
    const WorkShares& shares = kWorkShares[static_cast<size_t>(towards.wait)];
    const int most[] = {shares.all, shares.of_user, shares.of_session, shares.of_lane, shares.of_peer};
    const std::vector<std::string> keys = KeysOf(towards);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = begun_.find(keys[i]);
      if (found != begun_.end() && found->second >= most[i]) return false;
    }
    return true;
  }

  std::map<WorkId, Towards> waiting_;
  std::map<std::string, int> begun_;
};

TEST_F(WorkQueueTest, BeginsWhateverMayBeginAndNothingElse) {
  constexpr size_t kMostWaiting = 100;
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  Model model;
  std::vector<WorkItem> begun;
  for (int step = 0; step < 5'000 && !HasFailure(); ++step) {
    switch (below(8)) {
      case 0:
        if (last_id_ == 0) break;
        {
          const WorkId id{1 + below(last_id_)};
          ASSERT_EQ(queue_.Cancel(id), model.Cancel(id));
        }
        break;
      case 1:
      case 2:
      case 3:
        if (begun.empty()) break;
        std::swap(begun[below(begun.size())], begun.back());
        queue_.End(begun.back().towards);
        model.End(*begun.back().towards);
        begun.pop_back();
        break;
      default: {
        if (model.waiting() == kMostWaiting) break;
        const uint64_t session = 1 + below(9);
        const Towards towards = Of(static_cast<uint32_t>(1 + session % 3), session, std::string(1, "abcd"[below(4)]),
                                   below(2) == 0 ? PeerWait::kTimed : PeerWait::kUntimed);
        model.Add(Add(towards), towards);
        break;
      }
    }
    while (below(4) != 0) {
      std::optional<WorkItem> item = queue_.Begin();
      if (!item) {
        ASSERT_TRUE(model.Idle());
        break;
      }
      ASSERT_NO_FATAL_FAILURE(model.Begin(item->id));
      begun.push_back(*std::move(item));
    }
  }
}

}  // namespace
}  // namespace rdmabroker
