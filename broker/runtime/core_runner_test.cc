// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/core_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/runtime/loop_for_test.h"

namespace rdmabroker {
namespace {

// Answers everything at once, from inside Perform, as a fabric may.
class PromptFabric final : public Fabric {
 public:
  explicit PromptFabric(DeviceId id) {
    device_.id = id;
    device_.name = "prompt" + std::to_string(id.value());
    device_.addresses = {{.bytes = {192, 0, 2, static_cast<uint8_t>(id.value())}}};
  }

  void Start(ReportSink sink) override {
    sink_ = std::move(sink);
    sink_(DeviceChanged{device_});
  }
  void Perform(const FabricRequest& request) override {
    inside_ = true;
    if (const auto* bind = std::get_if<FabricBind>(&request)) {
      ++binds;
      bound_.push_back({bind->endpoint});
      if (bound_.size() == binds_at_once) {
        for (const FabricBound& bound : std::exchange(bound_, {})) sink_(bound);
      }
    }
    if (const auto* unbind = std::get_if<FabricUnbind>(&request)) sink_(FabricUnbound{unbind->endpoint});
    inside_ = false;
  }

  void MakeWay() override { ++ways_made; }
  bool HasHandshakes() const override { return has_handshakes; }
  // By itself.
  void Rename(const std::string& name) {
    device_.name = name;
    sink_(DeviceChanged{device_});
  }

  bool inside() const { return inside_; }
  const Device& device() const { return device_; }

  int binds = 0;
  size_t binds_at_once = 1;  // So many are answered together.
  int ways_made = 0;
  bool has_handshakes = false;

 private:
  Device device_;
  ReportSink sink_;
  std::vector<FabricBound> bound_;
  bool inside_ = false;
};

class CoreRunnerTest : public testing::Test {
 protected:
  PromptFabric* AddFabric(uint64_t id) {
    auto fabric = std::make_unique<PromptFabric>(DeviceId(id));
    PromptFabric* added = fabric.get();
    fabrics_.push_back(added);
    runner_->Add(std::move(fabric));
    return added;
  }

  // The outcome of a request, of the answer or the event that follows it at once.
  Outcome Ask(uint64_t request, Request what) {
    effects_.clear();
    runner_->Run(ClientRequest{SessionId(1), RequestId(request), EventNumber(0), std::move(what)});
    for (auto effect = effects_.rbegin(); effect != effects_.rend(); ++effect) {
      const auto* event = std::get_if<NumberedEvent>(&*effect);
      const auto* outcome = event == nullptr ? nullptr : std::get_if<OutcomeEvent>(&event->event);
      if (outcome != nullptr) return outcome->outcome;
      if (const auto* answer = std::get_if<Answer>(&*effect)) return answer->outcome;
    }
    return {.status = NdkStatus::kInternalError};
  }

  void Open() { runner_->Run(OpenSession{StreamId(1), {}, {}}); }
  bool RunTurn() { return loop_.RunTurn(Loop::Now()); }

  Loop loop_;
  Limits limits_ = {.a_turn = {.drops = 1}};
  std::vector<Effect> effects_;
  std::vector<PromptFabric*> fabrics_;
  // A sink that runs inside a fabric's Perform would see the core in the middle of its effects.
  std::unique_ptr<CoreRunner> runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [this](const Event&, const Effect& effect) {
        for (const PromptFabric* fabric : fabrics_) EXPECT_FALSE(fabric->inside());
        effects_.push_back(effect);
      },
      [](BrokerCore&) { return true; });
};

TEST_F(CoreRunnerTest, AReportFromInsidePerformWaitsForTheEffectsBeforeIt) {
  PromptFabric* fabric = AddFabric(1);
  Open();
  const Outcome opened = Ask(1, OpenAdapter{"prompt1", fabric->device().info.version});
  const AdapterId adapter = std::get<AdapterOpened>(opened.payload).adapter;
  const Outcome reserved = Ask(2, ReservePort{adapter, {fabric->device().addresses[0], 4420}});
  ASSERT_EQ(reserved.status, NdkStatus::kSuccess) << reserved.hint;
  // PENDING first, then the outcome.
  ASSERT_EQ(effects_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Answer>(effects_[0]));
  EXPECT_TRUE(std::holds_alternative<NumberedEvent>(effects_[1]));
}

TEST_F(CoreRunnerTest, WhatIsDueComesThoughEachTurnBringsAnEventBesides) {
  constexpr uint64_t kEvents = 5;
  PromptFabric* fabric = AddFabric(1);
  Open();
  const Outcome opened = Ask(1, OpenAdapter{"prompt1", fabric->device().info.version});
  const AdapterId adapter = std::get<AdapterOpened>(opened.payload).adapter;
  for (uint16_t i = 1; i <= kEvents; ++i) {
    Ask(1 + i, ReservePort{adapter, {fabric->device().addresses[0], static_cast<uint16_t>(4420 + i)}});
  }
  const AcknowledgeEvents all{SessionId(1), EventNumber(kEvents)};
  runner_->Run(all);
  const SessionRecord& session = runner_->core().records().sessions.at(SessionId(1));
  EXPECT_EQ(session.events.size(), kEvents - 1);
  for (uint64_t turns = 0; turns < 3 * kEvents && !session.events.empty(); ++turns) {
    loop_.Post([&] { runner_->Run(all); });
    EXPECT_TRUE(RunTurn());
  }
  EXPECT_TRUE(session.events.empty());
}

TEST_F(CoreRunnerTest, RequestsGoToTheFabricOfTheDevice) {
  PromptFabric* first = AddFabric(1);
  PromptFabric* second = AddFabric(2);
  Open();
  const Outcome opened = Ask(1, OpenAdapter{"prompt2", second->device().info.version});
  const AdapterId adapter = std::get<AdapterOpened>(opened.payload).adapter;
  Ask(2, ReservePort{adapter, {second->device().addresses[0], 4420}});
  EXPECT_EQ(first->binds, 0);
  EXPECT_EQ(second->binds, 1);
}

TEST_F(CoreRunnerTest, DeadlinesOfTheCoreAreKept) {
  limits_.session_grace = absl::Milliseconds(1);
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [this](const Event&, const Effect& effect) { effects_.push_back(effect); },
      [](BrokerCore&) { return true; });
  Open();
  effects_.clear();
  runner_->Run(StreamLost{SessionId(1), StreamId(1), StreamEnd::kBroker});
  const auto ended = [&] {
    return std::any_of(effects_.begin(), effects_.end(),
                       [](const Effect& effect) { return std::holds_alternative<SessionEnded>(effect); });
  };
  EXPECT_FALSE(ended());
  EXPECT_TRUE(RunUntil(loop_, ended));
}

TEST_F(CoreRunnerTest, ADeadlineThatIsNoLongerThereDoesNotRun) {
  limits_.session_grace = absl::Milliseconds(20);
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [this](const Event&, const Effect& effect) { effects_.push_back(effect); },
      [](BrokerCore&) { return true; });
  Open();
  runner_->Run(StreamLost{SessionId(1), StreamId(1), StreamEnd::kBroker});
  runner_->Run(ResumeSession{StreamId(2), SessionId(1), {}, {}, EventNumber(0)});
  bool later = false;
  loop_.StartTimer(Loop::Now() + absl::Milliseconds(40), [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop_, [&] { return later; }));
  EXPECT_TRUE(runner_->core().records().sessions.contains(SessionId(1)));
}

// What becomes of the effects of one event, and of what follows from them.
TEST_F(CoreRunnerTest, WhatAnEventHasChangedIsStoredBeforeAnybodyHearsOfIt) {
  size_t commits = 0;
  std::vector<std::pair<size_t, size_t>> heard;  // How many commits there had been, and whether all was stored.
  CoreRunner* running = nullptr;
  Records stored;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [&](const Event&, const Effect& effect) {
        effects_.push_back(effect);
        heard.emplace_back(commits, stored == running->core().records() ? 1 : 0);
      },
      [&](BrokerCore& core) {
        ++commits;
        stored = core.records();
        return true;
      });
  running = runner_.get();
  PromptFabric* fabric = AddFabric(1);
  Open();
  const Outcome opened = Ask(1, OpenAdapter{"prompt1", fabric->device().info.version});
  const AdapterId adapter = std::get<AdapterOpened>(opened.payload).adapter;
  heard.clear();
  const size_t before = commits;
  ASSERT_EQ(Ask(2, ReservePort{adapter, {fabric->device().addresses[0], 4420}}).status, NdkStatus::kSuccess);
  // The answer comes of the request, the outcome of the fabric's report.
  EXPECT_EQ(heard, (std::vector<std::pair<size_t, size_t>>{{before + 1, 1}, {before + 2, 1}}));
  EXPECT_EQ(commits, before + 3) << "once more for what the fabric may have noted";
}

TEST_F(CoreRunnerTest, OneCommitServesAllThatWaits) {
  size_t commits = 0;
  std::vector<size_t> heard;  // How many commits there had been.
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [&](const Event&, const Effect& effect) {
        effects_.push_back(effect);
        heard.push_back(commits);
      },
      [&](BrokerCore&) { return ++commits > 0; });
  PromptFabric* fabric = AddFabric(1);
  fabric->binds_at_once = 2;
  Open();
  const Outcome opened = Ask(1, OpenAdapter{"prompt1", fabric->device().info.version});
  const AdapterId adapter = std::get<AdapterOpened>(opened.payload).adapter;
  const IpAddress ip = fabric->device().addresses[0];
  ASSERT_EQ(Ask(2, ReservePort{adapter, {ip, 4420}}).status, NdkStatus::kPending);
  heard.clear();
  const size_t before = commits;
  ASSERT_EQ(Ask(3, ReservePort{adapter, {ip, 4421}}).status, NdkStatus::kSuccess);
  // The answer comes of the request, both outcomes of what the fabric reports meanwhile.
  EXPECT_EQ(heard, (std::vector<size_t>{before + 1, before + 2, before + 2}));
  EXPECT_EQ(commits, before + 3) << "once more for what the fabric may have noted";
}

TEST_F(CoreRunnerTest, EventsThatAreQueuedInOneTurnAreHandledInTheirOrderWithOneCommit) {
  size_t commits = 0;
  std::vector<uint64_t> causes;  // Requests, by their ids.
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [&](const Event& cause, const Effect& effect) {
        if (!std::holds_alternative<Answer>(effect)) return;
        EXPECT_EQ(commits, 1u);
        EXPECT_EQ(std::get<ClientRequest>(cause).id, std::get<Answer>(effect).id);
        causes.push_back(std::get<ClientRequest>(cause).id.value());
      },
      [&](BrokerCore&) { return ++commits > 0; });
  Open();
  commits = 0;
  for (uint64_t id = 1; id <= 3; ++id) {
    loop_.Post([this, id] {
      runner_->Queue(ClientRequest{SessionId(1), RequestId(id), EventNumber(0), CreateConnector{AdapterId(id)}});
    });
  }
  loop_.Post([&] { EXPECT_TRUE(causes.empty()) << "handled before the turn's end"; });
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(causes, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(commits, 2u) << "once more for what a fabric may have noted";
  EXPECT_FALSE(RunTurn());
}

TEST_F(CoreRunnerTest, WhatRunIsGivenComesAfterWhatIsQueued) {
  std::vector<uint64_t> opened;  // Streams.
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [&](const Event& cause, const Effect&) { opened.push_back(std::get<OpenSession>(cause).stream.value()); },
      [](BrokerCore&) { return true; });
  runner_->Queue(OpenSession{StreamId(1), {}, {}});
  EXPECT_TRUE(opened.empty());
  runner_->Run(OpenSession{StreamId(2), {}, {}});
  EXPECT_EQ(opened, (std::vector<uint64_t>{1, 2}));
  runner_->Queue(OpenSession{StreamId(3), {}, {}});
  runner_->HandleQueued();
  EXPECT_EQ(opened, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(opened.size(), 3u) << "handled twice";
  runner_->Queue(OpenSession{StreamId(4), {}, {}});
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(opened.size(), 4u);
}

TEST_F(CoreRunnerTest, WhereNothingIsQueuedNothingIsHandled) {
  int commits = 0;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {}, [&](BrokerCore&) { return ++commits > 0; });
  runner_->HandleQueued();
  EXPECT_EQ(commits, 0);
  runner_->Queue(OpenSession{StreamId(1), {}, {}});
  Open();
  const int before = commits;
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(commits, before);
}

TEST_F(CoreRunnerTest, WhatIsQueuedFromInsideASinkIsTakenAlong) {
  std::vector<uint64_t> opened;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_,
      [&](const Event& cause, const Effect&) {
        opened.push_back(std::get<OpenSession>(cause).stream.value());
        if (opened.back() < 3) runner_->Queue(OpenSession{StreamId(opened.back() + 1), {}, {}});
      },
      [](BrokerCore&) { return true; });
  Open();
  EXPECT_EQ(opened, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_FALSE(RunTurn());
}

TEST_F(CoreRunnerTest, AReportThatAFabricMakesByItselfIsHandledAtTheTurnsEnd) {
  PromptFabric* fabric = AddFabric(1);
  const auto name = [this] { return runner_->core().records().devices.at(DeviceId(1)).device.name; };
  Open();
  loop_.Post([&] {
    fabric->Rename("other1");
    EXPECT_EQ(name(), "prompt1");
    loop_.AtTurnEnd(Loop::Stage::kReply, [&] { EXPECT_EQ(name(), "other1"); });
  });
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(name(), "other1");
}

TEST_F(CoreRunnerTest, EachEventIsPreparedWhenTheOnesBeforeItHaveBeenHandled) {
  std::vector<size_t> sessions;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {}, [](BrokerCore&) { return true; }, nullptr,
      [&](Event& event) {
        sessions.push_back(runner_->core().records().sessions.size());
        std::get<OpenSession>(event).identity.uid = 77;
      });
  for (const uint64_t stream : {1, 2}) runner_->Queue(OpenSession{StreamId(stream), {}, {}});
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(sessions, (std::vector<size_t>{0, 1}));
  for (const auto& [id, session] : runner_->core().records().sessions) EXPECT_EQ(session.identity.uid, 77u);
}

TEST_F(CoreRunnerTest, AFollowerHearsOfWhatChangesWhileItFollows) {
  Open();
  std::vector<SessionId> seen;
  runner_->Follow([&](const Changes& changes) {
    EXPECT_FALSE(changes.all);
    seen.insert(seen.end(), changes.sessions.begin(), changes.sessions.end());
  });
  runner_->Run(OpenSession{StreamId(2), {}, {}});
  EXPECT_EQ(seen, std::vector<SessionId>{SessionId(2)});
  runner_->Follow(nullptr);
  runner_->Run(OpenSession{StreamId(3), {}, {}});
  EXPECT_EQ(seen.size(), 1u);
}

TEST_F(CoreRunnerTest, WhatCouldNotBeStoredIsTriedAgainThoughNothingHappens) {
  int commits = 0;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {}, [&](BrokerCore&) { return ++commits > 2; });
  Open();
  EXPECT_EQ(commits, 1);
  EXPECT_TRUE(RunUntil(loop_, [&] { return commits == 3; }));
}

TEST_F(CoreRunnerTest, WhatCannotBeStoredIsTriedLessAndLessOftenUntilItIs) {
  std::vector<Instant> tries;
  bool room = false;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {},
      [&](BrokerCore&) {
        tries.push_back(Loop::Now());
        return room;
      });
  Open();
  ASSERT_TRUE(RunUntil(loop_, [&] { return tries.size() == 3; }));
  EXPECT_GE(tries[1] - tries[0], absl::Seconds(1));
  EXPECT_GE(tries[2] - tries[1], absl::Seconds(2));
  room = true;
  ASSERT_TRUE(RunUntil(loop_, [&] { return tries.size() == 4; }));
  EXPECT_GE(tries[3] - tries[2], absl::Seconds(4));
  room = false;
  Open();
  const size_t before = tries.size();
  ASSERT_TRUE(RunUntil(loop_, [&] { return tries.size() == before + 1; }));
  EXPECT_LT(tries[before] - tries[before - 1], absl::Seconds(8)) << "it was stored meanwhile";
}

TEST_F(CoreRunnerTest, WhatCouldNotBeStoredIsNotTriedAgainWithEachEvent) {
  int commits = 0;
  bool room = false;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {},
      [&](BrokerCore&) { return ++commits > 0 && room; });
  for (int i = 0; i < 3; ++i) Open();
  EXPECT_EQ(commits, 1);
  ASSERT_TRUE(RunUntil(loop_, [&] { return commits == 2; }));
  Open();
  EXPECT_EQ(commits, 2);
  room = true;
  ASSERT_TRUE(RunUntil(loop_, [&] { return commits == 3; }));
  Open();
  EXPECT_EQ(commits, 5);
}

TEST_F(CoreRunnerTest, WhatCouldNotBeStoredIsTriedAgainBeforeTheNextProcess) {
  int commits = 0;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {}, [&](BrokerCore&) { return ++commits > 1; });
  AddFabric(1);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(commits, 1);
  runner_->MakeWay();
  EXPECT_EQ(commits, 2);
}

TEST_F(CoreRunnerTest, EveryFabricMakesWayAndWhatItNotesIsStored) {
  PromptFabric* fabrics[2] = {};
  int ways_stored = 0;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {},
      [&](BrokerCore&) {
        ways_stored = 0;
        for (const PromptFabric* fabric : fabrics) ways_stored += fabric == nullptr ? 0 : fabric->ways_made;
        return true;
      });
  for (size_t i = 0; i < 2; ++i) fabrics[i] = AddFabric(i + 1);
  runner_->MakeWay();
  EXPECT_EQ(ways_stored, 2);
  EXPECT_FALSE(runner_->HasHandshakes());
  fabrics[1]->has_handshakes = true;
  EXPECT_TRUE(runner_->HasHandshakes());
}

TEST_F(CoreRunnerTest, WhereThereIsNoFabricYetNothingIsStored) {
  int commits = 0;
  runner_ = std::make_unique<CoreRunner>(
      BrokerCore(limits_), loop_, [](const Event&, const Effect&) {}, [&](BrokerCore&) { return ++commits > 0; });
  runner_->MakeWay();
  EXPECT_EQ(commits, 0);
}

// Says of its devices that one is there and that one has gone, and notes what it is asked.
class HeirFabric final : public Fabric {
 public:
  explicit HeirFabric(std::vector<FabricRequest>& asked) : asked_(asked) {}

  void Start(ReportSink sink) override {
    sink(DeviceChanged{{.id = DeviceId(1), .name = "nic1", .addresses = {{.bytes = {192, 0, 2, 7}}}}});
    sink(DeviceRemoved{DeviceId(2)});
  }
  void Perform(const FabricRequest& request) override { asked_.push_back(request); }

 private:
  std::vector<FabricRequest>& asked_;
};

// A wildcard listener on each of two devices, whose addresses are others by the time of the recovery.
TEST_F(CoreRunnerTest, FabricsAreAskedToAdoptBeforeAllElse) {
  BrokerCore former(limits_);
  const auto handle = [&](const Event& event) { (void)former.Handle(Loop::Now(), event); };
  uint64_t request = 0;
  handle(OpenSession{StreamId(1), {}, {}});
  for (const uint64_t id : {1, 2}) {
    const std::string name = "nic" + std::to_string(id);
    handle(FabricReport(DeviceChanged{
        {.id = DeviceId(id), .name = name, .addresses = {{.bytes = {192, 0, 2, static_cast<uint8_t>(id)}}}}}));
    for (Request what : {Request(OpenAdapter{name, kNdkVersion}), Request(CreateListener{AdapterId(id)}),
                         Request(Listen{ListenerId(id), {IpAddress::Any(IpFamily::kIpv4), 4420}, {}})}) {
      handle(ClientRequest{SessionId(1), RequestId(++request), EventNumber(0), std::move(what)});
    }
    handle(FabricReport(FabricBound{EndpointId(id)}));
  }
  ASSERT_EQ(former.records().endpoints.size(), 2u);
  runner_ = std::make_unique<CoreRunner>(
      *BrokerCore::Restore(limits_, former.records()), loop_, [](const Event&, const Effect&) {},
      [](BrokerCore&) { return true; });
  std::vector<FabricRequest> asked;
  std::vector<std::unique_ptr<Fabric>> fabrics;
  fabrics.push_back(std::make_unique<HeirFabric>(asked));
  runner_->Recover(std::move(fabrics));
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<FabricAdoptEndpoint>(asked[0]));
  EXPECT_TRUE(std::holds_alternative<FabricAdoptEndpoint>(asked[1]));
  EXPECT_TRUE(std::holds_alternative<FabricAdopted>(asked[2]));
  EXPECT_TRUE(std::holds_alternative<FabricAdopted>(asked[3]));
  EXPECT_TRUE(std::holds_alternative<FabricRebind>(asked[4]));
}

}  // namespace
}  // namespace rdmabroker
