// SPDX-License-Identifier: Apache-2.0

#include "client/protocol/session_protocol.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/protocol/batched_request.h"

namespace rdmabroker::client {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Notes what it is given; the test says when that has gone.
class NotingTransport final : public Transport {
 public:
  void Start(const v1::SessionRequest& first) override {
    EXPECT_FALSE(up) << "one stream at a time";
    up = true;
    started.push_back(first);
  }
  bool Send(const v1::SessionRequest& message) override {
    EXPECT_TRUE(up && free) << "only what it has asked for";
    free = always_free;
    sent.push_back(message);
    return always_free;
  }
  void Abandon() override { up = free = false; }
  bool SomebodyListens() override { return somebody_listens; }
  Outcome NoBroker() override { return {.status = NdkStatus::kConnectionRefused, .hint = "nobody listens"}; }

  bool up = false;
  bool free = false;
  bool always_free = false;
  bool somebody_listens = true;
  std::vector<v1::SessionRequest> started;
  std::vector<v1::SessionRequest> sent;
};

class SessionProtocolTest : public testing::Test, protected SessionProtocol::Owner {
 protected:
  static constexpr uint64_t kSession = 7;

  void Open() {
    protocol_.Open(now_);
    HasGone();
    Reply(OpenedReply());
    ASSERT_THAT(log_, ElementsAre("opened"));
    log_.clear();
  }
  // The transport's word.
  void HasGone() {
    transport_.free = true;
    protocol_.Sent(now_);
  }
  void Reply(const v1::SessionReply& reply) { protocol_.Received(reply, now_); }
  void EndStream(const StreamEnd& end) {
    transport_.up = transport_.free = false;
    protocol_.StreamEnded(end, now_);
  }
  static StreamEnd Lost() { return {.outcome = std::nullopt, .gone = true, .text = "lost"}; }
  static StreamEnd Says(NdkStatus status, bool retryable = false) {
    v1::Outcome outcome;
    outcome.set_status(static_cast<v1::NdkStatus>(static_cast<int32_t>(status)));
    outcome.set_retryable(retryable);
    outcome.set_hint("says the broker");
    return {.outcome = outcome, .gone = false, .text = ""};
  }
  void Pass(std::chrono::milliseconds time) {
    const SessionProtocol::Instant end = now_ + time;
    while (protocol_.NextDeadline() <= end) {
      now_ = std::max(now_, protocol_.NextDeadline());
      protocol_.HandleTime(now_);
    }
    now_ = end;
  }
  // Until there is another stream, which the broker opens.
  void Return() {
    const size_t before = transport_.started.size();
    Pass(seconds(3));
    ASSERT_EQ(transport_.started.size(), before + 1);
    HasGone();
    Reply(OpenedReply());
  }

  static v1::SessionReply OpenedReply() {
    v1::SessionReply reply;
    v1::SessionOpened& opened = *reply.mutable_opened();
    opened.set_session_id(kSession);
    opened.set_session_secret("secret");
    opened.set_lineage(11);
    opened.mutable_limits()->set_answers_kept(64);
    opened.mutable_limits()->set_session_grace_ms(30'000);
    return reply;
  }
  static v1::SessionReply Batch(uint64_t taken, const std::vector<uint64_t>& answered = {},
                                const std::vector<v1::SessionEvent>& events = {}) {
    v1::SessionReply reply;
    v1::ReplyBatch& batch = *reply.mutable_batch();
    batch.set_requests_taken(taken);
    for (const uint64_t id : answered) batch.add_answers()->set_request_id(id);
    for (const v1::SessionEvent& event : events) *batch.add_events() = event;
    return reply;
  }
  static v1::SessionEvent Event(uint64_t number) {
    v1::SessionEvent event;
    event.set_number(number);
    event.mutable_adapter_removed()->set_adapter_id(number);
    return event;
  }
  static v1::SessionEvent OutcomeOf(uint64_t number, uint64_t request) {
    v1::SessionEvent event;
    event.set_number(number);
    event.mutable_outcome()->set_request_id(request);
    return event;
  }
  void Ask(const std::string& name) {
    v1::CloseConnectorRequest request;
    request.set_connector_id(1);
    protocol_.Ask(
        InBatch(std::move(request)),
        [this, name](const Outcome& outcome, const v1::Outcome&) { log_.push_back(name + " " + Name(outcome.status)); },
        now_);
  }
  static std::string Name(NdkStatus status) { return std::string(StatusName(status)); }
  // The numbers of the requests in the last message.
  std::vector<uint64_t> LastRequests() const {
    std::vector<uint64_t> numbers;
    for (const auto& request : transport_.sent.back().requests().requests()) numbers.push_back(request.request_id());
    return numbers;
  }

  NotingTransport transport_;
  std::vector<std::string> log_;
  std::function<void(const v1::SessionEvent&)> on_event_;
  SessionProtocol::Instant now_{hours(1)};
  SessionProtocol protocol_{transport_, *this, {milliseconds(5000), "/the/socket"}, RandomBackOff(1)};

 private:
  void Opened() override { log_.push_back("opened"); }
  void Happened(const v1::SessionEvent& event) override {
    log_.push_back("event " + std::to_string(event.number()));
    if (on_event_) on_event_(event);
  }
  void Over(const Outcome& outcome) override { log_.push_back("over " + Name(outcome.status)); }
  void Ended(const Outcome& outcome) override {
    log_.push_back("ended " + Name(outcome.status));
    hint_ = outcome.hint;
  }
  void Closed() override { log_.push_back("closed"); }

 protected:
  std::string hint_;
};

TEST_F(SessionProtocolTest, ItSaysWhatItKnowsAndOpensOnce) {
  Open();
  ASSERT_THAT(transport_.started, SizeIs(1));
  const v1::OpenSession& open = transport_.started[0].open();
  EXPECT_EQ(open.api_minor(), 2u);
  EXPECT_THAT(open.features(), ElementsAre("listener-address-events", "endpoint-address-events", "requests-on-stream"));
  EXPECT_EQ(protocol_.NextDeadline(), SessionProtocol::kNever) << "an idle session costs nothing";
}

TEST_F(SessionProtocolTest, RequestsThatAreMadeWhileAMessageIsOnItsWayGoTogether) {
  Open();
  for (const char* name : {"a", "b", "c"}) Ask(name);
  EXPECT_THAT(LastRequests(), ElementsAre(1));
  HasGone();
  EXPECT_THAT(LastRequests(), ElementsAre(2, 3));
  EXPECT_THAT(transport_.sent, SizeIs(2));
  Reply(Batch(3, {1, 3}));
  EXPECT_THAT(log_, ElementsAre("a STATUS_SUCCESS", "c STATUS_SUCCESS"));
  HasGone();
  EXPECT_THAT(transport_.sent, SizeIs(2));
}

TEST_F(SessionProtocolTest, WhatAReplyLeadsToGoesTogetherAfterAllOfIt) {
  Open();
  on_event_ = [this](const v1::SessionEvent& event) { Ask("of " + std::to_string(event.number())); };
  Reply(Batch(0, {}, {Event(1), Event(2)}));
  EXPECT_THAT(transport_.sent, SizeIs(1));
  EXPECT_THAT(LastRequests(), ElementsAre(1, 2));
  EXPECT_EQ(transport_.sent[0].requests().acknowledged_event(), 2u);
}

TEST_F(SessionProtocolTest, AnswersComeBeforeEventsAndOutcomesAreNoEvents) {
  Open();
  Ask("a");
  Ask("b");
  HasGone();
  Reply(Batch(2, {2}, {Event(1), OutcomeOf(2, 1)}));
  EXPECT_THAT(log_, ElementsAre("b STATUS_SUCCESS", "event 1", "a STATUS_SUCCESS"));
}

TEST_F(SessionProtocolTest, EventsAreAcknowledgedWhereNoRequestDoesIt) {
  Open();
  Reply(Batch(0, {}, {Event(1), Event(2)}));
  EXPECT_THAT(transport_.sent, IsEmpty());
  Pass(milliseconds(50));
  ASSERT_THAT(transport_.sent, SizeIs(1));
  EXPECT_EQ(transport_.sent[0].acknowledge().acknowledged_event(), 2u);
  HasGone();
  Pass(seconds(10));
  EXPECT_THAT(transport_.sent, SizeIs(1)) << "once";
  EXPECT_EQ(protocol_.NextDeadline(), SessionProtocol::kNever);
}

TEST_F(SessionProtocolTest, WhoMakesRequestsSaysNothingElseOfEvents) {
  Open();
  for (uint64_t i = 1; i <= 20; ++i) {
    Reply(Batch(i - 1, {}, {Event(i)}));
    Pass(milliseconds(30));
    Ask("r");
    HasGone();
  }
  for (const auto& message : transport_.sent) EXPECT_TRUE(message.has_requests()) << message.DebugString();
}

TEST_F(SessionProtocolTest, ManyEventsAreAcknowledgedAtOnce) {
  Open();
  for (uint64_t i = 1; i <= 256; ++i) Reply(Batch(0, {}, {Event(i)}));
  ASSERT_THAT(transport_.sent, SizeIs(1));
  EXPECT_EQ(transport_.sent[0].acknowledge().acknowledged_event(), 256u);
}

TEST_F(SessionProtocolTest, ALostStreamIsReturnedToAndOnlyWhatIsNotTakenIsMadeAgain) {
  Open();
  for (const char* name : {"a", "b", "c"}) Ask(name);
  HasGone();
  HasGone();
  Reply(Batch(1, {}, {Event(1)}));  // The first is pending.
  EndStream(Lost());
  Ask("d");
  Return();
  const v1::ResumeSession& resume = transport_.started.back().resume();
  EXPECT_EQ(resume.session_id(), kSession);
  EXPECT_EQ(resume.session_secret(), "secret");
  EXPECT_EQ(resume.lineage(), 11u);
  EXPECT_EQ(resume.acknowledged_event(), 1u);
  EXPECT_THAT(resume.features(), SizeIs(3));
  EXPECT_THAT(LastRequests(), ElementsAre(2, 3, 4));
  // What was dealt with may come again.
  Reply(Batch(4, {2, 3, 4}, {Event(1), OutcomeOf(2, 1)}));
  EXPECT_THAT(log_,
              ElementsAre("event 1", "b STATUS_SUCCESS", "c STATUS_SUCCESS", "d STATUS_SUCCESS", "a STATUS_SUCCESS"));
}

TEST_F(SessionProtocolTest, NothingIsSentBeforeTheSessionIsReturnedTo) {
  Open();
  EndStream(Lost());
  Ask("a");
  Pass(seconds(1));
  HasGone();
  EXPECT_THAT(transport_.sent, IsEmpty());
  Reply(OpenedReply());
  EXPECT_THAT(LastRequests(), ElementsAre(1));
}

TEST_F(SessionProtocolTest, WhoIsTurnedAwayComesAgainLaterEachTimeUntilTheGracePeriodIsOver) {
  Open();
  EndStream(Says(NdkStatus::kConnectionDisconnected, true));
  std::vector<SessionProtocol::Instant> tries;
  const SessionProtocol::Instant lost = now_;
  while (log_.empty()) {
    const size_t before = transport_.started.size();
    now_ = protocol_.NextDeadline();
    protocol_.HandleTime(now_);
    if (transport_.started.size() == before) continue;
    tries.push_back(now_);
    EndStream(Says(NdkStatus::kConnectionDisconnected, true));
  }
  EXPECT_EQ(now_ - lost, seconds(30));
  EXPECT_THAT(log_, ElementsAre("over STATUS_CONNECTION_DISCONNECTED", "ended STATUS_CONNECTION_DISCONNECTED"));
  ASSERT_GT(tries.size(), 7u);
  EXPECT_LE(tries.size(), 40u);
  milliseconds least(10);
  SessionProtocol::Instant before = lost;
  for (const auto next : tries) {
    EXPECT_GE(next - before, least);
    EXPECT_LT(next - before, 2 * least);
    before = next;
    least = std::min(2 * least, milliseconds(1000));
  }
}

TEST_F(SessionProtocolTest, ARequestThatNoBrokerSurvivesEndsTheSessionWhenItsGracePeriodIsOver) {
  Open();
  Ask("a");
  const SessionProtocol::Instant first = now_;
  int streams = 1;
  for (; log_.empty() && streams < 1000; ++streams) {
    EndStream(Lost());
    if (log_.empty()) Return();
  }
  EXPECT_THAT(log_, ElementsAre("over STATUS_CONNECTION_DISCONNECTED", "a STATUS_CONNECTION_DISCONNECTED",
                                "ended STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_GE(now_ - first, seconds(30));
  EXPECT_LT(streams, 60) << "each later than the one before";
}

TEST_F(SessionProtocolTest, BrokersThatGetSomethingDoneMayGoAsOftenAsTheyLike) {
  Open();
  for (uint64_t i = 1; i <= 50; ++i) {
    Ask("a");
    EndStream(Lost());
    Return();
    Reply(Batch(i, {i}));
  }
  EXPECT_THAT(log_, SizeIs(50));
  EXPECT_THAT(log_, Each("a STATUS_SUCCESS"));
}

TEST_F(SessionProtocolTest, ABrokerThatIsStuckEndsTheSession) {
  Open();
  Ask("a");
  HasGone();
  Pass(seconds(59));
  Reply(Batch(0, {}, {Event(1)}));
  EXPECT_THAT(log_, ElementsAre("event 1"));
  Pass(seconds(1));
  EXPECT_THAT(log_, ElementsAre("event 1", "over STATUS_CONNECTION_DISCONNECTED", "a STATUS_CONNECTION_DISCONNECTED",
                                "ended STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_FALSE(transport_.up);
}

TEST_F(SessionProtocolTest, AProcessThatWasStoppedListensBeforeItTakesTheBrokerForStuck) {
  Open();
  Ask("a");
  Ask("b");
  HasGone();
  now_ += hours(2);
  protocol_.HandleTime(now_);
  EXPECT_THAT(log_, IsEmpty());
  Reply(Batch(2, {1, 2}));
  Pass(hours(1));
  EXPECT_THAT(log_, ElementsAre("a STATUS_SUCCESS", "b STATUS_SUCCESS"));
}

TEST_F(SessionProtocolTest, WhatHasEndedByAnEventIsNotWaitedFor) {
  Open();
  Ask("a");
  HasGone();
  Reply(Batch(0, {}, {OutcomeOf(1, 1)}));
  HasGone();
  Pass(hours(1));
  EXPECT_THAT(log_, ElementsAre("a STATUS_SUCCESS"));
  EXPECT_EQ(protocol_.NextDeadline(), SessionProtocol::kNever);
}

TEST_F(SessionProtocolTest, OneThatTakesSomeRequestEachMinuteIsNotStuck) {
  Open();
  for (uint64_t i = 1; i <= 5; ++i) {
    Ask("a");
    Ask("b");
    HasGone();
    Pass(seconds(50));
    Reply(Batch(2 * i - 1, {2 * i - 1}));
  }
  EXPECT_THAT(log_, SizeIs(5));
}

struct End {
  const char* name;
  NdkStatus status;
  bool retryable;
  bool on_return;         // Or else on the first stream.
  const char* ends_with;  // Empty: it returns.
};

TEST_F(SessionProtocolTest, TheEndOfAStreamEndsTheSessionWhereTheBrokerSaysSo) {
  constexpr const char* kGone = "STATUS_CONNECTION_DISCONNECTED";
  const End rows[] = {
      {"kept", NdkStatus::kConnectionDisconnected, true, false, ""},
      {"not kept", NdkStatus::kConnectionDisconnected, false, false, kGone},
      {"an administrator", NdkStatus::kRequestAborted, false, false, "STATUS_REQUEST_ABORTED"},
      {"kept, on return", NdkStatus::kConnectionDisconnected, true, true, ""},
      {"over, on return", NdkStatus::kAccessDenied, false, true, kGone},
      {"lost with its records", NdkStatus::kObjectNameNotFound, false, true, kGone},
  };
  for (const End& row : rows) {
    SCOPED_TRACE(row.name);
    transport_ = NotingTransport();
    SessionProtocol protocol(transport_, *this, {seconds(5), "/the/socket"}, RandomBackOff(1));
    protocol.Open(now_);
    protocol.Received(OpenedReply(), now_);
    log_.clear();
    const auto end = [&](const StreamEnd& how) {
      transport_.up = false;
      protocol.StreamEnded(how, now_);
    };
    if (row.on_return) {
      end(Lost());
      now_ = protocol.NextDeadline();
      protocol.HandleTime(now_);
    }
    const size_t before = transport_.started.size();
    end(Says(row.status, row.retryable));
    now_ += seconds(1);
    if (protocol.NextDeadline() <= now_) protocol.HandleTime(now_);
    const std::string status = row.ends_with;
    if (status.empty()) {
      EXPECT_THAT(log_, IsEmpty());
      EXPECT_EQ(transport_.started.size(), before + 1);
    } else {
      EXPECT_THAT(log_, ElementsAre("over " + status, "ended " + status));
      EXPECT_THAT(hint_, HasSubstr("says the broker"));
      EXPECT_EQ(transport_.started.size(), before);
      EXPECT_EQ(protocol.NextDeadline(), SessionProtocol::kNever);
    }
    EXPECT_EQ(protocol.forgotten(), row.status == NdkStatus::kObjectNameNotFound);
  }
}

TEST_F(SessionProtocolTest, AnOpeningWaitsForTheNextBrokerAsLongAsSomebodyListens) {
  protocol_.Open(now_);
  EndStream(Lost());
  Pass(milliseconds(100));
  EndStream(Says(NdkStatus::kConnectionDisconnected, true));
  Pass(milliseconds(200));
  EXPECT_THAT(transport_.started, SizeIs(3));
  EXPECT_THAT(log_, IsEmpty());
  transport_.somebody_listens = false;
  EndStream(Lost());
  EXPECT_THAT(log_, ElementsAre("over STATUS_CONNECTION_REFUSED", "ended STATUS_CONNECTION_REFUSED"));
  EXPECT_EQ(hint_, "nobody listens");
}

TEST_F(SessionProtocolTest, AnOpeningThatNobodyAnswersEndsInTime) {
  protocol_.Open(now_);
  Pass(seconds(5));
  EXPECT_THAT(log_, ElementsAre("over STATUS_IO_TIMEOUT", "ended STATUS_IO_TIMEOUT"));
  EXPECT_THAT(hint_, HasSubstr("/the/socket"));
  EXPECT_FALSE(transport_.up);
}

TEST_F(SessionProtocolTest, AnOpeningThatIsTurnedAwayToTheEndSaysWhy) {
  protocol_.Open(now_);
  for (int i = 0; i < 10 && log_.empty(); ++i) {
    EndStream(Says(NdkStatus::kConnectionDisconnected, true));
    Pass(seconds(2));
  }
  EXPECT_THAT(log_, ElementsAre("over STATUS_CONNECTION_DISCONNECTED", "ended STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(hint_, "says the broker");
}

TEST_F(SessionProtocolTest, WhatIsNoSessionIsTheBrokersFault) {
  protocol_.Open(now_);
  EndStream({.outcome = std::nullopt, .gone = false, .text = "strange"});
  EXPECT_THAT(log_, ElementsAre("over STATUS_INTERNAL_ERROR", "ended STATUS_INTERNAL_ERROR"));
  EXPECT_THAT(hint_, HasSubstr("strange"));
}

TEST_F(SessionProtocolTest, AnotherSessionThanTheOwnEndsIt) {
  Open();
  EndStream(Lost());
  Pass(seconds(1));
  v1::SessionReply other = OpenedReply();
  other.mutable_opened()->set_session_id(kSession + 1);
  Reply(other);
  EXPECT_THAT(log_, ElementsAre("over STATUS_INTERNAL_ERROR", "ended STATUS_INTERNAL_ERROR"));
}

TEST_F(SessionProtocolTest, ACloseIsToldOnceAndEndsWithTheStream) {
  Open();
  Ask("a");
  EXPECT_TRUE(protocol_.Close(now_));
  EXPECT_THAT(transport_.sent, SizeIs(1)) << "a message is on its way";
  HasGone();
  ASSERT_THAT(transport_.sent, SizeIs(2));
  EXPECT_TRUE(transport_.sent[1].has_close());
  EndStream({.outcome = std::nullopt, .gone = false, .text = ""});
  EXPECT_THAT(log_, ElementsAre("a STATUS_CANCELLED", "closed"));
  protocol_.FinishClose();
  EXPECT_THAT(log_, SizeIs(2));
  EXPECT_EQ(protocol_.NextDeadline(), SessionProtocol::kNever);
}

TEST_F(SessionProtocolTest, ACloseComesAfterTheRequestsThatWereMadeBeforeIt) {
  Open();
  for (const char* name : {"a", "b", "c"}) Ask(name);
  EXPECT_TRUE(protocol_.Close(now_));
  HasGone();
  EXPECT_THAT(LastRequests(), ElementsAre(2, 3));
  HasGone();
  EXPECT_TRUE(transport_.sent.back().has_close());
  Reply(Batch(3, {1, 2, 3}));
  EXPECT_THAT(log_, ElementsAre("a STATUS_SUCCESS", "b STATUS_SUCCESS", "c STATUS_SUCCESS"));
  HasGone();
  EXPECT_THAT(transport_.sent, SizeIs(3));
}

TEST_F(SessionProtocolTest, ATransportThatIsFreeAtOnceIsGivenAllThatThereIs) {
  transport_.always_free = true;
  Open();
  for (int i = 0; i < 3; ++i) Ask("a");
  EXPECT_THAT(transport_.sent, SizeIs(3));
  EXPECT_TRUE(protocol_.Close(now_));
  EXPECT_TRUE(transport_.sent.back().has_close());
  EXPECT_THAT(transport_.sent, SizeIs(4));
}

TEST_F(SessionProtocolTest, ItsOwnersFunctionsMayCallIt) {
  Open();
  on_event_ = [this](const v1::SessionEvent& event) {
    if (event.number() != 1) return;
    EXPECT_TRUE(protocol_.Close(now_));
  };
  Ask("a");
  HasGone();
  Reply(Batch(1, {1}, {Event(1), Event(2)}));
  EXPECT_THAT(log_, ElementsAre("a STATUS_SUCCESS", "event 1", "event 2"));
  EXPECT_TRUE(transport_.sent.back().has_close());
}

TEST_F(SessionProtocolTest, WhatIsAskedByTheEndOfARequestEndsLikewise) {
  Open();
  v1::CloseConnectorRequest request;
  request.set_connector_id(1);
  protocol_.Ask(
      InBatch(std::move(request)), [this](const Outcome&, const v1::Outcome&) { Ask("b"); }, now_);
  EndStream(Says(NdkStatus::kRequestAborted));
  EXPECT_THAT(log_,
              ElementsAre("over STATUS_REQUEST_ABORTED", "b STATUS_REQUEST_ABORTED", "ended STATUS_REQUEST_ABORTED"));
}

TEST_F(SessionProtocolTest, ACloseWaitsTwoSecondsForTheStreamsEnd) {
  Open();
  EXPECT_TRUE(protocol_.Close(now_));
  Pass(milliseconds(1999));
  EXPECT_THAT(log_, IsEmpty());
  Pass(milliseconds(1));
  EXPECT_THAT(log_, ElementsAre("closed"));
  EXPECT_FALSE(transport_.up);
}

TEST_F(SessionProtocolTest, ACloseThatABrokerDiesOfIsToldTheNext) {
  Open();
  EXPECT_TRUE(protocol_.Close(now_));
  EndStream(Lost());
  EXPECT_THAT(log_, IsEmpty());
  Pass(milliseconds(100));
  ASSERT_THAT(transport_.started, SizeIs(2));
  EXPECT_TRUE(transport_.started[1].has_resume());
  HasGone();
  EXPECT_THAT(transport_.sent, SizeIs(1)) << "not before it is returned to";
  Reply(OpenedReply());
  ASSERT_THAT(transport_.sent, SizeIs(2));
  EXPECT_TRUE(transport_.sent[1].has_close());
  EndStream({.outcome = std::nullopt, .gone = false, .text = ""});
  EXPECT_THAT(log_, ElementsAre("closed"));
}

TEST_F(SessionProtocolTest, AClosedSessionThatIsAwayReturnsForThat) {
  Open();
  EndStream(Lost());
  EXPECT_TRUE(protocol_.Close(now_));
  Pass(milliseconds(100));
  HasGone();
  Reply(OpenedReply());
  ASSERT_THAT(transport_.sent, SizeIs(1));
  EXPECT_TRUE(transport_.sent[0].has_close());
}

TEST_F(SessionProtocolTest, AClosedSessionThatIsAboutToReturnTellsItThere) {
  Open();
  EndStream(Lost());
  Pass(milliseconds(100));
  HasGone();
  EXPECT_TRUE(protocol_.Close(now_));
  EXPECT_THAT(transport_.sent, IsEmpty());
  Reply(OpenedReply());
  ASSERT_THAT(transport_.sent, SizeIs(1));
  EXPECT_TRUE(transport_.sent[0].has_close());
}

TEST_F(SessionProtocolTest, WhereThereIsNoSessionACloseHasNothingToTell) {
  protocol_.Open(now_);
  EXPECT_FALSE(protocol_.Close(now_));
  EXPECT_THAT(log_, IsEmpty());
  protocol_.FinishClose();
  EXPECT_THAT(log_, ElementsAre("closed"));
  EXPECT_FALSE(transport_.up);
}

TEST_F(SessionProtocolTest, ASessionThatIsOverIsClosedAfterwards) {
  Open();
  EndStream(Says(NdkStatus::kRequestAborted));
  log_.clear();
  Ask("a");
  EXPECT_THAT(log_, ElementsAre("a STATUS_REQUEST_ABORTED"));
  log_.clear();
  EXPECT_FALSE(protocol_.Close(now_));
  protocol_.FinishClose();
  EXPECT_THAT(log_, ElementsAre("closed"));
}

TEST_F(SessionProtocolTest, AnOlderBrokersEventsComeOneByOne) {
  Open();
  for (uint64_t i = 1; i <= 2; ++i) {
    v1::SessionReply reply;
    *reply.mutable_event() = Event(i);
    Reply(reply);
    Reply(reply);
  }
  EXPECT_THAT(log_, ElementsAre("event 1", "event 2"));
}

}  // namespace
}  // namespace rdmabroker::client
