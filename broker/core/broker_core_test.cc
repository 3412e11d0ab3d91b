// SPDX-License-Identifier: Apache-2.0

// What neither a scenario nor the search over small worlds can say: extremes.

#include "broker/core/broker_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace rdmabroker {
namespace {

constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max();

Outcome AnswerOf(const Effects& effects) {
  const auto* answer = effects.size() == 1 ? std::get_if<Answer>(&effects.front()) : nullptr;
  EXPECT_NE(answer, nullptr);
  return answer == nullptr ? Outcome{} : answer->outcome;
}

class HostileNumbers : public testing::Test {
 protected:
  HostileNumbers() { (void)Handle(OpenSession{StreamId(1), {1000, 1000, 1}, {}}); }

  Effects Handle(const Event& event) {
    Effects effects = core_.Handle(absl::UnixEpoch(), event);
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    return effects;
  }
  NdkStatus Ask(uint64_t id, uint64_t acknowledged, const Request& request) {
    return AnswerOf(Handle(ClientRequest{SessionId(1), RequestId(id), EventNumber(acknowledged), request})).status;
  }

  BrokerCore core_{Limits{}};
};

TEST_F(HostileNumbers, RequestIdsAtTheEndOfTheirRangeAreAnsweredAndRepeated) {
  const Request request = OpenAdapter{"none", kNdkVersion};
  for (const uint64_t id : {uint64_t{1}, kGreatest - 10, kGreatest - 1, kGreatest}) {
    EXPECT_EQ(Ask(id, 0, request), NdkStatus::kObjectNameNotFound) << id;
    EXPECT_EQ(Ask(id, 0, request), NdkStatus::kObjectNameNotFound) << id;
    EXPECT_EQ(Ask(id, 0, CloseConnector{ConnectorId(1)}), NdkStatus::kInvalidParameter) << id;
  }
  EXPECT_EQ(Ask(1, 0, request), NdkStatus::kInvalidParameter) << "its answer is forgotten";
}

TEST_F(HostileNumbers, ObjectsThatNoNumberNamesAreUnknown) {
  const std::vector<Request> requests = {
      CloseAdapter{AdapterId(kGreatest)},
      CreateListener{AdapterId()},
      Listen{ListenerId(kGreatest), {}, ReservationId(kGreatest)},
      CloseSharedEndpoint{SharedEndpointId()},
      ReleasePort{ReservationId(kGreatest)},
      ConnectWithSharedEndpoint{ConnectorId(kGreatest), {}, SharedEndpointId(kGreatest), {}, {}, {}},
      Accept{ConnectorId(), {kGreatest & 0xFFFFFFFF}, {}, {}},
  };
  uint64_t id = 0;
  for (const Request& request : requests) EXPECT_EQ(Ask(++id, 0, request), NdkStatus::kObjectNameNotFound) << id;
}

TEST_F(HostileNumbers, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  EXPECT_EQ(Ask(1, kGreatest, OpenAdapter{}), NdkStatus::kInvalidParameter);
  EXPECT_TRUE(Handle(AcknowledgeEvents{SessionId(1), EventNumber(kGreatest)}).empty());
}

TEST(TheCoreDeathTest, EndsTheProcessWhereTimeGoesBack) {
  BrokerCore core{Limits{}};
  (void)core.Handle(absl::UnixEpoch(), DeadlineReached{});
  EXPECT_DEATH((void)core.Handle(absl::UnixEpoch() - absl::Nanoseconds(1), DeadlineReached{}), "time went back");
}

TEST(ACore, HasTheLineageThatItIsGivenOrNone) {
  EXPECT_EQ(BrokerCore(Limits{}, 7).records().lineage, 7u);
  EXPECT_EQ(BrokerCore(Limits{}).records().lineage, 0u);
}

TEST(AClientThatAcknowledgesNothing, MayOnlyEndWhatItHas) {
  const std::vector<Request> ends = {CloseAdapter{},   CloseListener{}, CloseSharedEndpoint{},
                                     CloseConnector{}, ReleasePort{},   ReportConnectionEnd{}};
  const std::vector<Request> others = {
      OpenAdapter{}, CreateListener{},  Listen{},     ControlConnectEvents{},      CreateSharedEndpoint{},
      ReservePort{}, CreateConnector{}, Connect{},    ConnectWithSharedEndpoint{}, CompleteConnect{},
      Accept{},      Reject{},          Disconnect{}, GetConnectionData{}};
  BrokerCore core{Limits{.events_kept = 0}};
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  uint64_t id = 0;
  const auto ask = [&](const Request& request) {
    const ClientRequest event{SessionId(1), RequestId(++id), EventNumber(), request};
    return AnswerOf(core.Handle(absl::UnixEpoch(), event)).status;
  };
  for (const Request& request : ends) EXPECT_EQ(ask(request), NdkStatus::kObjectNameNotFound) << request.index();
  for (const Request& request : others) EXPECT_EQ(ask(request), NdkStatus::kInsufficientResources) << request.index();
  EXPECT_EQ(ends.size() + others.size(), std::variant_size_v<Request::variant>);
}

TEST(ARestoredCore, IsNoneOfBrokenRecords) {
  BrokerCore core{Limits{}};
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  Records records = core.records();
  records.sessions.at(SessionId(1)).adapters = 1;
  EXPECT_EQ(BrokerCore::Restore(Limits{}, records).status(),
            absl::InvalidArgumentError("session 1: counts 1 objects of kind 0, has 0"));
}

TEST(ARestoredCore, IsNoneOfRecordsWithDeadlinesThatDoNotSayWhenTheyAreFrom) {
  BrokerCore core{Limits{}};
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  (void)core.Handle(absl::UnixEpoch(), StreamLost{SessionId(1), StreamId(1), StreamEnd::kBroker});
  Records records = core.records();
  EXPECT_TRUE(BrokerCore::Restore(Limits{}, records).ok());
  for (const Instant never : {absl::InfinitePast(), absl::InfiniteFuture()}) {
    records.now = never;
    EXPECT_EQ(BrokerCore::Restore(Limits{}, records).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ARestoredCore, TellsNoReaderWhatTheFormerOneNoted) {
  for (const ChangeReader reader : {ChangeReader::kStore, ChangeReader::kWatches}) {
    BrokerCore core{Limits{}};
    (void)core.TakeChanges(reader);
    (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
    absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(Limits{}, core.records());
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->TakeChanges(reader), Changes{.all = true});
  }
}

TEST(ARestoredCore, LetsSessionsKeepWhatItsOwnLimitsWouldNotGive) {
  BrokerCore core{Limits{}};
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{{.id = DeviceId(1), .name = "nic0"}}));
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  const auto open = [](BrokerCore& in, uint64_t id) {
    const OpenAdapter request{"nic0", kNdkVersion};
    return AnswerOf(in.Handle(absl::UnixEpoch(), ClientRequest{SessionId(1), RequestId(id), EventNumber(), request}));
  };
  for (const uint64_t id : {1, 2, 3}) ASSERT_EQ(open(core, id).status, NdkStatus::kSuccess);
  Limits lower;
  lower.adapters_per_session = 2;
  lower.answers_kept = 1;
  absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(lower, core.records());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->records(), core.records());
  EXPECT_EQ(open(*restored, 4).status, NdkStatus::kInsufficientResources);
  const SessionRecord& session = restored->records().sessions.at(SessionId(1));
  EXPECT_EQ(session.adapters, 3u);
  EXPECT_EQ(session.answers.size(), 4u) << "as its client was told";
  EXPECT_EQ(open(*restored, 1).status, NdkStatus::kSuccess) << "a repeat";
  EXPECT_EQ(session.adapters, 3u);
}

class ChangedLimits : public testing::Test {
 protected:
  ChangedLimits() {
    (void)core_.Handle(now_, FabricReport(DeviceChanged{{.id = DeviceId(1), .name = "nic0"}}));
    (void)core_.Handle(now_, OpenSession{StreamId(1), {}, {}});
  }

  void Set(const std::function<void(Limits&)>& change) {
    Limits limits = core_.limits();
    change(limits);
    core_.SetLimits(limits);
  }
  NdkStatus Ask(uint64_t id, const Request& request) {
    return AnswerOf(core_.Handle(now_, ClientRequest{SessionId(1), RequestId(id), EventNumber(), request})).status;
  }
  NdkStatus OpenAdapter(uint64_t id) { return Ask(id, rdmabroker::OpenAdapter{"nic0", kNdkVersion}); }
  bool OpenAnotherSession() {
    return std::holds_alternative<SessionOpened>(core_.Handle(now_, OpenSession{StreamId(2), {}, {}}).front());
  }
  void Return() {
    const Effects effects = core_.Handle(now_, ResumeSession{StreamId(++last_stream_), SessionId(1), {}, {}, {}});
    EXPECT_TRUE(std::holds_alternative<SessionOpened>(effects.back()));
  }
  // Older versions recorded sessions in this way.
  void RestoreWithoutAnswersKept() {
    Records records = core_.records();
    records.sessions.at(SessionId(1)).answers_kept = 0;
    absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core_.limits(), records);
    ASSERT_TRUE(restored.ok()) << restored.status();
    core_ = *std::move(restored);
    (void)core_.Handle(now_, Recover{});
  }
  uint32_t AnswersKept(SessionId session) { return core_.records().sessions.at(session).answers_kept; }

  const Instant now_ = absl::UnixEpoch();
  BrokerCore core_{Limits{}};
  uint64_t last_stream_ = 2;
};

TEST_F(ChangedLimits, TakeNothingFromWhoHasMoreAndGiveNothingMore) {
  for (const uint64_t id : {1, 2, 3}) ASSERT_EQ(OpenAdapter(id), NdkStatus::kSuccess);
  const Records before = core_.records();
  Set([](Limits& limits) { limits.adapters_per_session = 2; });
  EXPECT_EQ(core_.records(), before);
  EXPECT_EQ(OpenAdapter(4), NdkStatus::kInsufficientResources);
  EXPECT_EQ(Ask(5, CloseAdapter{AdapterId(1)}), NdkStatus::kSuccess);
  EXPECT_EQ(OpenAdapter(6), NdkStatus::kInsufficientResources) << "two are left";
  EXPECT_EQ(Ask(7, CloseAdapter{AdapterId(2)}), NdkStatus::kSuccess);
  EXPECT_EQ(OpenAdapter(8), NdkStatus::kSuccess);
}

TEST_F(ChangedLimits, AreBrokenWhileSomebodyHasMore) {
  for (const uint64_t id : {1, 2, 3}) ASSERT_EQ(OpenAdapter(id), NdkStatus::kSuccess);
  EXPECT_EQ(core_.CheckInvariants(), absl::OkStatus());
  Set([](Limits& limits) { limits.adapters_per_session = 2; });
  EXPECT_EQ(core_.CheckInvariants(), absl::InternalError("session 1: has 3 objects of kind 0"));
}

TEST_F(ChangedLimits, GiveMoreAtOnce) {
  Set([](Limits& limits) { limits.sessions_per_uid = 1; });
  EXPECT_FALSE(OpenAnotherSession());
  Set([](Limits& limits) { limits.sessions_per_uid = 2; });
  EXPECT_TRUE(OpenAnotherSession());
}

TEST_F(ChangedLimits, LeaveADeadlineThatRunsAlone) {
  (void)core_.Handle(now_, StreamLost{SessionId(1), StreamId(1), StreamEnd::kBroker});
  const Instant deadline = core_.NextDeadline();
  Set([](Limits& limits) { limits.session_grace = absl::Seconds(1); });
  EXPECT_EQ(core_.NextDeadline(), deadline);
  ASSERT_TRUE(OpenAnotherSession());
  (void)core_.Handle(now_, StreamLost{SessionId(2), StreamId(2), StreamEnd::kBroker});
  EXPECT_EQ(core_.NextDeadline(), now_ + absl::Seconds(1));
}

// A client has as many requests unanswered as it was told when its session was opened, and repeats them all.
TEST_F(ChangedLimits, KeepTheAnswersThatSessionsWereToldOf) {
  for (const uint64_t id : {1, 2, 3}) ASSERT_EQ(OpenAdapter(id), NdkStatus::kSuccess);
  Set([](Limits& limits) { limits.answers_kept = 1; });
  EXPECT_EQ(OpenAdapter(4), NdkStatus::kSuccess);
  EXPECT_EQ(OpenAdapter(1), NdkStatus::kSuccess) << "a repeat";
  EXPECT_EQ(core_.records().sessions.at(SessionId(1)).adapters, 4u);
  ASSERT_TRUE(OpenAnotherSession());
  EXPECT_EQ(AnswersKept(SessionId(2)), 1u);
}

TEST_F(ChangedLimits, MakeNoForgottenRequestNewAgain) {
  for (const uint64_t id : {uint64_t{1}, 1 + uint64_t{Limits().answers_kept}}) {
    ASSERT_EQ(OpenAdapter(id), NdkStatus::kSuccess);
  }
  ASSERT_EQ(OpenAdapter(1), NdkStatus::kInvalidParameter) << "forgotten";
  Set([](Limits& limits) { limits.answers_kept *= 2; });
  Return();
  EXPECT_EQ(OpenAdapter(1), NdkStatus::kInvalidParameter);
  EXPECT_EQ(AnswersKept(SessionId(1)), Limits().answers_kept);
}

TEST_F(ChangedLimits, HoldForASessionThatReturnsFromABrokerThatDidNotRecordThem) {
  ASSERT_EQ(OpenAdapter(1), NdkStatus::kSuccess);
  RestoreWithoutAnswersKept();
  Return();
  for (const uint64_t id : {2, 1}) EXPECT_EQ(OpenAdapter(id), NdkStatus::kSuccess) << id;
  EXPECT_EQ(core_.records().sessions.at(SessionId(1)).adapters, 2u) << "one was a repeat";
}

// A client may send requests before it resumes its session, and repeats the unanswered ones.
TEST_F(ChangedLimits, KeepTheNewestAnswerOfASessionThatHasNotBeenToldOfThem) {
  RestoreWithoutAnswersKept();
  for (const uint64_t id : {1, 1, 2, 2}) EXPECT_EQ(OpenAdapter(id), NdkStatus::kSuccess) << id;
  EXPECT_EQ(core_.records().sessions.at(SessionId(1)).adapters, 2u) << "two were repeats";
}

// The whole range, to its last port, which is also the last that 16 bits hold.
TEST(TheEphemeralRange, GivesEachPortOnceAndThenNone) {
  Limits limits;
  limits.endpoints_per_uid = 1 << 16;
  limits.reservations_per_session = 1 << 16;
  limits.events_kept = 1 << 16;
  BrokerCore core(limits);
  Device device;
  device.id = DeviceId(1);
  device.name = "nic0";
  device.addresses = {{.bytes = {192, 0, 2, 1}}};
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{device}));
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  uint64_t id = 0;
  const auto ask = [&](Request request) {
    const ClientRequest event{SessionId(1), RequestId(++id), EventNumber(), std::move(request)};
    return core.Handle(absl::UnixEpoch(), event);
  };
  (void)ask(OpenAdapter{"nic0", kNdkVersion});
  const ReservePort any{AdapterId(1), {device.addresses[0], 0}};
  std::set<uint16_t> ports;
  for (uint32_t i = 0; i <= uint32_t{limits.last_ephemeral_port} - limits.first_ephemeral_port; ++i) {
    for (const Effect& effect : ask(any)) {
      const auto* request = std::get_if<FabricRequest>(&effect);
      if (request != nullptr) ports.insert(std::get<FabricBind>(*request).port);
    }
  }
  EXPECT_EQ(ports.size(), 16384u);
  EXPECT_EQ(*ports.begin(), 49152);
  EXPECT_EQ(*ports.rbegin(), 65535);
  EXPECT_EQ(AnswerOf(ask(any)).status, NdkStatus::kTooManyAddresses);
  // One comes back, wherever in the range the search stands.
  (void)core.Handle(absl::UnixEpoch(), FabricReport(FabricBindFailed{EndpointId(5), NdkStatus::kInvalidAddress, 99}));
  EXPECT_EQ(std::get<FabricBind>(std::get<FabricRequest>(ask(any).front())).port, 49156);
}

// One device, and two sessions of the user 1000.
class ARequest : public testing::Test {
 protected:
  ARequest() {
    Handle(FabricReport(DeviceChanged{{.id = DeviceId(1), .name = "nic0", .addresses = {kLocal.ip}}}));
    for (const uint64_t stream : {1, 2}) Handle(OpenSession{StreamId(stream), {1000, 1000, 1}, {}});
  }

  Effects Handle(const Event& event) { return core_.Handle(absl::UnixEpoch(), event); }
  ClientRequest Make(uint64_t id, Request request) {
    return {SessionId(1), RequestId(id), EventNumber(), std::move(request)};
  }
  void Do(Request request) { Handle(Make(++last_, std::move(request))); }
  // At endpoint 1.
  void Arrive(uint64_t peer) {
    FabricConnectRequested report;
    report.connection = IncomingConnection(DeviceId(1), peer);
    report.endpoint = EndpointId(1);
    report.local = kLocal;
    report.peer = {{.bytes = {192, 0, 2, 9}}, static_cast<uint16_t>(peer)};
    Handle(FabricReport(report));
  }
  Holdings Held() {
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    return core_.HoldingsOf(1000);
  }

  static constexpr SocketAddress kLocal = {{.bytes = {192, 0, 2, 1}}, 7000};
  BrokerCore core_{Limits{.answers_kept = 2}};
  uint64_t last_ = 0;
};

TEST_F(ARequest, IsNewUnlessItIsAnsweredWithoutBeingCarriedOut) {
  const ClientRequest first = Make(5, OpenAdapter{"nic0", kNdkVersion});
  EXPECT_TRUE(core_.IsNew(first));
  EXPECT_TRUE(core_.IsNew(first)) << "to ask changes nothing";
  Handle(first);
  EXPECT_FALSE(core_.IsNew(first)) << "a repeat";
  EXPECT_FALSE(core_.IsNew(Make(5, CloseAdapter{AdapterId(1)}))) << "another's number";
  EXPECT_FALSE(core_.IsNew(Make(3, CloseAdapter{AdapterId(1)}))) << "a forgotten number";
  EXPECT_FALSE(core_.IsNew(Make(0, CloseAdapter{AdapterId(1)})));
  EXPECT_TRUE(core_.IsNew(Make(4, CloseAdapter{AdapterId(1)})));
  Handle(EndSession{SessionId(1)});
  EXPECT_FALSE(core_.IsNew(Make(6, CloseAdapter{AdapterId(1)})));
}

TEST_F(ARequest, ThatIsRefusedDoesNothingAndIsRefusedInRepeats) {
  ClientRequest request = Make(1, OpenAdapter{"nic0", kNdkVersion});
  request.refusal = Outcome{.status = NdkStatus::kAccessDenied, .hint = "not you"};
  EXPECT_EQ(AnswerOf(Handle(request)), *request.refusal);
  EXPECT_EQ(AnswerOf(Handle(Make(1, request.request))), *request.refusal);
  EXPECT_TRUE(core_.records().adapters.empty());
  EXPECT_EQ(AnswerOf(Handle(Make(2, request.request))).status, NdkStatus::kSuccess);
  request.id = RequestId(2);
  EXPECT_EQ(AnswerOf(Handle(request)).status, NdkStatus::kSuccess) << "what was done is not refused afterwards";
}

// An earlier version of the broker has kept the answer.
TEST_F(ARequest, WhoseAnswerIsKeptWithoutADigestIsKnownByItsNumberAlone) {
  const Outcome opened = AnswerOf(Handle(Make(1, OpenAdapter{"nic0", kNdkVersion})));
  Records records = core_.records();
  records.sessions.at(SessionId(1)).answers.front().request.reset();
  core_ = BrokerCore::Restore(Limits{}, records).value();
  EXPECT_EQ(AnswerOf(Handle(Make(1, CloseAdapter{AdapterId(1)}))), opened);
  EXPECT_EQ(core_.records().adapters.size(), 1u);
}

TEST_F(ARequest, IsForgottenWithItsAnswerWhenItsSessionEnds) {
  Do(OpenAdapter{"nic0", kNdkVersion});
  Do(CreateListener{AdapterId(1)});
  Do(Listen{ListenerId(1), kLocal, {}});
  Handle(FabricReport(FabricBound{EndpointId(1)}));
  Handle(EndSession{SessionId(1)});
  const SessionRecord& session = core_.records().sessions.at(SessionId(1));
  EXPECT_EQ(session.listeners, 1u) << "waits for its address";
  EXPECT_TRUE(session.answers.empty());
  EXPECT_TRUE(session.events.empty());
}

TEST_F(ARequest, IsHeardWhileEndedSessionsCloseSomeOfTheirObjectsAtATime) {
  constexpr uint32_t kObjects = 150;
  const uint32_t at_a_time = core_.limits().a_turn.closes;
  for (const uint64_t session : {1, 2}) {
    for (uint64_t id = 1; id <= kObjects; ++id) {
      const Request open = OpenAdapter{"nic0", kNdkVersion};
      const Request create = CreateConnector{AdapterId(session)};
      Handle(ClientRequest{SessionId(session), RequestId(id), EventNumber(), id == 1 ? open : create});
    }
  }
  Handle(OpenSession{StreamId(3), {1001, 1001, 1}, {}});
  for (const uint64_t session : {1, 2}) Handle(EndSession{SessionId(session)});
  // Connectors that nothing else needs are gone at once, and an adapter stays until its connectors are.
  EXPECT_EQ(core_.records().connectors.size(), 2 * (kObjects - 1 - at_a_time));
  uint64_t id = 0;
  while (core_.HoldingsOf(1000).sessions > 0) {
    ASSERT_LE(core_.NextDeadline(), absl::UnixEpoch()) << "the core does not continue by itself";
    const size_t before = core_.records().connectors.size();
    Handle(DeadlineReached{});
    EXPECT_GE(core_.records().connectors.size() + at_a_time, before);
    const ClientRequest others{SessionId(3), RequestId(++id), EventNumber(), OpenAdapter{"nic0", kNdkVersion}};
    EXPECT_EQ(AnswerOf(Handle(others)).status, NdkStatus::kSuccess);
    const absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core_.limits(), core_.records());
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->NextDeadline(), core_.NextDeadline());
  }
  EXPECT_EQ(Held(), Holdings());
  EXPECT_EQ(core_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(ARequest, IsHeardWhileSessionsThatDoNotComeBackEndSomeAtATime) {
  constexpr uint64_t kSessions = 20;
  for (uint64_t stream = 3; stream <= kSessions; ++stream) Handle(OpenSession{StreamId(stream), {1000, 1000, 1}, {}});
  Handle(Recover{});
  const Instant end = core_.NextDeadline();
  uint64_t left = kSessions;
  while (left > 0) {
    ASSERT_LE(core_.NextDeadline(), end) << "the core does not continue by itself";
    (void)core_.Handle(end, DeadlineReached{});
    const uint64_t before = std::exchange(left, Held().sessions);
    EXPECT_LT(left, before);
    EXPECT_LE(before - left, core_.limits().a_turn.ends);
  }
}

// Has a listener's events 1 to 8 in session 1, and drops at most two at a time.
class ManyEvents : public ARequest {
 protected:
  static constexpr uint64_t kEvents = 8;
  static constexpr uint32_t kAtATime = 2;

  ManyEvents() {
    core_ = *BrokerCore::Restore(Limits{.events_kept = kEvents + 1, .a_turn = {.drops = kAtATime}}, core_.records());
    Do(OpenAdapter{"nic0", kNdkVersion});
    Do(CreateListener{AdapterId(1)});
    Do(Listen{ListenerId(1), kLocal, {}});
    Handle(FabricReport(FabricBound{EndpointId(1)}));
    for (uint64_t peer = 1; peer < kEvents; ++peer) Arrive(peer);
    EXPECT_EQ(Kept(), kEvents);
  }

  size_t Kept() const {
    const auto found = core_.records().sessions.find(SessionId(1));
    if (found == core_.records().sessions.end()) return 0;
    return found->second.events.size() + (found->second.ended ? found->second.answers.size() : 0);
  }
  // The core asks for further turns until it has dropped the other events. So does one that is restored in between.
  void ExpectTheOthersToGo() {
    while (Kept() > 0) {
      const size_t before = Kept();
      ASSERT_LE(core_.NextDeadline(), absl::UnixEpoch()) << "the core does not continue by itself";
      const absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core_.limits(), core_.records());
      ASSERT_TRUE(restored.ok()) << restored.status();
      EXPECT_EQ(restored->NextDeadline(), core_.NextDeadline());
      Handle(DeadlineReached{});
      EXPECT_EQ(Kept(), before - std::min<size_t>(before, kAtATime));
      Held();
    }
    EXPECT_EQ(core_.NextDeadline(), absl::InfiniteFuture());
  }
};

TEST_F(ManyEvents, ThatAreAcknowledgedAreDroppedSomeAtATime) {
  Handle(AcknowledgeEvents{SessionId(1), EventNumber(kEvents)});
  EXPECT_EQ(Kept(), kEvents - kAtATime);
  EXPECT_EQ(core_.records().sessions.at(SessionId(1)).unacknowledged(), 0u);
  ExpectTheOthersToGo();
}

TEST_F(ManyEvents, ThatAreKeptAreNotCopiedWhenTheirClientReturns) {
  EXPECT_EQ(Handle(ResumeSession{StreamId(3), SessionId(1), {1000, 1000, 1}, {}, EventNumber(0)}),
            (Effects{StreamReplaced{StreamId(1)}, SessionOpened{StreamId(3), SessionId(1)}}));
  EXPECT_EQ(Kept(), kEvents);
}

TEST_F(ManyEvents, ThatAreAcknowledgedLeaveRoomForOthersThoughTheyAreNotDroppedYet) {
  Arrive(kEvents);
  ASSERT_EQ(Kept(), core_.limits().events_kept);
  EXPECT_EQ(AnswerOf(Handle(Make(++last_, CreateConnector{AdapterId(1)}))).status, NdkStatus::kInsufficientResources);
  ClientRequest asked = Make(++last_, CreateConnector{AdapterId(1)});
  asked.acknowledged = EventNumber(kEvents + 1);
  EXPECT_EQ(AnswerOf(Handle(asked)).status, NdkStatus::kSuccess);
  EXPECT_GT(Kept(), 0u);
}

TEST_F(ManyEvents, OfAnEndedSessionAreDroppedSomeAtATimeAndThenItsAnswers) {
  const size_t answers = core_.records().sessions.at(SessionId(1)).answers.size();
  Handle(EndSession{SessionId(1)});
  EXPECT_EQ(Kept(), kEvents + answers - kAtATime);
  ExpectTheOthersToGo();
}

TEST_F(ManyEvents, OfAnEndedSessionThatOwnsNothingKeepItOnRecordUntilTheyAreDropped) {
  const Request requests[] = {OpenAdapter{"nic0", kNdkVersion}, CreateListener{AdapterId(2)},
                              Listen{ListenerId(2), {kLocal.ip, 7001}, {}}, CloseListener{ListenerId(2)},
                              CloseAdapter{AdapterId(2)}};
  for (uint64_t id = 0; const Request& request : requests) {
    Handle(ClientRequest{SessionId(2), RequestId(++id), EventNumber(), request});
    if (id == 3) Handle(FabricReport(FabricBound{EndpointId(2)}));
    if (id == 4) Handle(FabricReport(FabricUnbound{EndpointId(2)}));
  }
  // Listen's and CloseListener's outcomes are two events, and another session has used this turn's allowance but for
  // one.
  TurnBudget left = {.drops = 1};
  (void)core_.Handle(absl::UnixEpoch(), EndSession{SessionId(2)}, &left);
  EXPECT_EQ(left.drops, 0u);
  EXPECT_EQ(Held().sessions, 2u);
  for (size_t kept = core_.records().sessions.at(SessionId(2)).answers.size() + 1; kept > 0;) {
    EXPECT_EQ(Held().sessions, 2u);
    Handle(DeadlineReached{});
    kept -= std::min<size_t>(kept, kAtATime);
  }
  EXPECT_EQ(Held().sessions, 1u);
}

// Has connections whose transports the client of session 1 has not fetched. At most three of them time out in a turn.
class UnfetchedConnections : public ARequest {
 protected:
  static constexpr uint32_t kAtATime = 3;

  UnfetchedConnections() {
    core_ = *BrokerCore::Restore(Limits{.a_turn = {.timeouts = kAtATime}}, core_.records());
    Do(OpenAdapter{"nic0", kNdkVersion});
    Do(CreateListener{AdapterId(1)});
    Do(Listen{ListenerId(1), kLocal, {}});
    Handle(FabricReport(FabricBound{EndpointId(1)}));
    for (uint32_t peer = 1; peer <= 2 * kAtATime + 1; ++peer) {
      Arrive(peer);
      Do(Accept{ConnectorId(peer), {peer}, {}, {}});
      Handle(FabricReport(FabricEstablished{IncomingConnection(DeviceId(1), peer), HandoffSecret()}));
    }
    EXPECT_EQ(Waiting(), 2 * kAtATime + 1);
  }

  size_t Waiting() const {
    const auto& connectors = core_.records().connectors;
    return std::count_if(connectors.begin(), connectors.end(),
                         [](const auto& entry) { return entry.second.awaits_handoff; });
  }
};

TEST_F(UnfetchedConnections, EndSomeAtATime) {
  const Instant end = core_.NextDeadline();
  for (size_t waiting = Waiting(); waiting > 0;) {
    ASSERT_LE(core_.NextDeadline(), end) << "the core does not continue by itself";
    (void)core_.Handle(end, DeadlineReached{});
    const size_t before = std::exchange(waiting, Waiting());
    EXPECT_EQ(before - waiting, std::min<size_t>(before, kAtATime));
  }
}

TEST_F(UnfetchedConnections, HoldUpNoDeadlineOfAnotherUser) {
  Handle(OpenSession{StreamId(3), {1001, 1001, 1}, {}});
  const auto of_other = [this](uint64_t id, const Request& request) {
    Handle(ClientRequest{SessionId(3), RequestId(id), EventNumber(), request});
  };
  of_other(1, OpenAdapter{"nic0", kNdkVersion});
  of_other(2, CreateConnector{AdapterId(2)});
  const ConnectorId others(2 * kAtATime + 2);
  of_other(3, Connect{others, {1}, {kLocal.ip, 0}, {{.bytes = {192, 0, 2, 9}}, 7001}, {}, {}});
  Handle(FabricReport(FabricBound{EndpointId(2)}));
  const Instant end = absl::UnixEpoch() + core_.limits().connect_timeout;
  ASSERT_EQ(core_.records().connectors.at(others).deadline, end) << "after those of the unfetched";
  (void)core_.Handle(end, DeadlineReached{});
  EXPECT_EQ(core_.records().connectors.at(others).deadline, absl::InfiniteFuture());
  EXPECT_GE(Waiting(), kAtATime) << "each user has the same share";
}

TEST_F(UnfetchedConnections, AreNotVisitedWhenTheirClientReturns) {
  (void)core_.TakeChanges(ChangeReader::kStore);
  Handle(ResumeSession{StreamId(3), SessionId(1), {1000, 1000, 1}, {}, EventNumber(0)});
  EXPECT_EQ(core_.TakeChanges(ChangeReader::kStore), Changes{.sessions = {SessionId(1)}});
}

TEST_F(ARequest, ToOpenAnAdapterLeavesItsVersionOnRecord) {
  Do(OpenAdapter{"nic0", {2, 0}});
  EXPECT_EQ(core_.records().adapters.at(AdapterId(1)).requested, (NdkVersion{2, 0}));
}

TEST_F(ARequest, CountsInWhatItsUserHolds) {
  EXPECT_EQ(Held(), (Holdings{.sessions = 2}));
  Do(OpenAdapter{"nic0", kNdkVersion});
  Do(CreateConnector{AdapterId(1)});
  Do(CreateListener{AdapterId(1)});
  Do(Listen{ListenerId(1), kLocal, {}});
  EXPECT_EQ(Held(), (Holdings{.sessions = 2, .listeners = 1, .connectors = 1}));
  Handle(FabricReport(FabricBound{EndpointId(1)}));
  for (const uint64_t peer : {1, 2, 3}) Arrive(peer);
  EXPECT_EQ(Held(), (Holdings{.sessions = 2, .listeners = 1, .connectors = 1})) << "undecided ones do not count";
  const absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core_.limits(), core_.records());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->HoldingsOf(1000), Held());
  Do(Accept{ConnectorId(2), {1}, {}, {}});
  Do(Reject{ConnectorId(3), {}});
  EXPECT_EQ(Held().connectors, 3u);
  Do(CloseConnector{ConnectorId(4)});
  EXPECT_EQ(core_.HoldingsOf(1001), (Holdings{.sessions = 0, .listeners = 0, .connectors = 0}));
  Handle(EndSession{SessionId(1)});
  for (const uint64_t peer : {1, 2, 3}) {
    Handle(FabricReport(FabricReleased{IncomingConnection(DeviceId(1), peer)}));
  }
  Handle(FabricReport(FabricUnbound{EndpointId(1)}));
  EXPECT_EQ(Held(), (Holdings{.sessions = 1}));
}

// The data may have been any, and the peer may have been told it.
TEST_F(ARequest, ToAcceptIsAbortedByADeathOfABrokerThatDidNotRecordItsData) {
  Do(OpenAdapter{"nic0", kNdkVersion});
  Do(CreateListener{AdapterId(1)});
  Do(Listen{ListenerId(1), kLocal, {}});
  Handle(FabricReport(FabricBound{EndpointId(1)}));
  Arrive(1);
  Do(Accept{ConnectorId(1), {1}, {}, {}});
  Records records = core_.records();
  records.connectors.at(ConnectorId(1)).accept_data.reset();
  absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core_.limits(), records);
  ASSERT_TRUE(restored.ok()) << restored.status();
  core_ = *std::move(restored);
  const ConnectionId connection = IncomingConnection(DeviceId(1), 1);
  const Effects effects = Handle(Recover{});
  const auto asks_for = [&](const FabricRequest& request) {
    return std::find(effects.begin(), effects.end(), Effect(request)) != effects.end();
  };
  EXPECT_TRUE(asks_for(FabricRelease{DeviceId(1), connection, false}));
  EXPECT_EQ(effects.size(), 5u) << "to adopt the listener, the connection and nothing more, to release, and the event";
  EXPECT_EQ(core_.records().connectors.at(ConnectorId(1)).state, ConnectorState::kDead);
  const auto& told = std::get<OutcomeEvent>(core_.records().sessions.at(SessionId(1)).events.back());
  EXPECT_EQ(told.request, RequestId(last_));
  EXPECT_EQ(told.outcome.status, NdkStatus::kConnectionAborted);
  const ClientRequest again = Make(++last_, Accept{ConnectorId(1), {1}, {}, {}});
  EXPECT_EQ(AnswerOf(Handle(again)).status, NdkStatus::kConnectionAborted);
}

}  // namespace
}  // namespace rdmabroker
