// SPDX-License-Identifier: Apache-2.0

#include "client/session.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>

#include "client/control_socket.h"
#include "client/protocol/request_queue.h"
#include "client/testing/fixture.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SessionTest : public ClientTest {
 protected:
  static v1::SessionEvent Removed(uint64_t adapter) {
    v1::SessionEvent event;
    event.mutable_adapter_removed()->set_adapter_id(adapter);
    return event;
  }
};

TEST_F(SessionTest, ASessionOpensAndCloses) {
  OpenSession();
  EXPECT_EQ(adapter->info().max_caller_data, 56u);
  EXPECT_TRUE(adapter->client_ends_connections());
  EXPECT_NE(adapter->data(), nullptr);
  EXPECT_EQ(session->Close(LogsClose("closed")), NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
  EXPECT_EQ(session->Close({}), NdkStatus::kSuccess);
}

TEST_F(SessionTest, ASocketThatNobodyServesIsNamed) {
  SessionOptions options;
  options.control_socket = broker.folder() + "/absent.sock";
  const auto opening = Session::Open(options);
  EXPECT_EQ(opening.outcome.status, NdkStatus::kConnectionRefused);
  EXPECT_THAT(opening.outcome.hint, HasSubstr(options.control_socket));
  EXPECT_EQ(opening.session, nullptr);
}

// A server that stops cancels calls, a connection that breaks fails them, and one that makes way says so.
TEST_F(SessionTest, AnOpeningWaitsForTheBrokerThatComesAfterTheOneThatDiedOfIt) {
  std::vector<grpc::Status> ends = {{grpc::StatusCode::UNAVAILABLE, "Socket closed"},
                                    {grpc::StatusCode::CANCELLED, "CANCELLED"},
                                    Broker::FailedRpc(Broker::KeptSession())};
  broker.OnStream([ends](const v1::SessionRequest& message) mutable {
    if (!message.has_open() || ends.empty()) return grpc::Status::OK;
    grpc::Status end = ends.front();
    ends.erase(ends.begin());
    return end;
  });
  OpenSession();
  EXPECT_EQ(broker.streams(), 4u);
}

TEST_F(SessionTest, AnOpeningForWhichNoBrokerLivesLongEnoughEndsInTime) {
  broker.OnStream([](const v1::SessionRequest&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost"); });
  SessionOptions options;
  options.control_socket = broker.control_socket();
  options.open_timeout = std::chrono::seconds(2);
  EXPECT_EQ(Session::Open(options).outcome.status, NdkStatus::kConnectionRefused);
  EXPECT_GT(broker.streams(), 1u);
}

// A dead broker that nobody supervises leaves its socket behind.
TEST_F(SessionTest, ASocketThatNobodyListensOnAnyMoreIsNotWaitedFor) {
  SessionOptions options;
  options.control_socket = broker.folder() + "/left.sock";
  options.open_timeout = std::chrono::hours(1);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, options.control_socket.c_str(), sizeof address.sun_path - 1);
  UniqueFd left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(left.get(), 1), 0);
  EXPECT_TRUE(SomebodyListens(options.control_socket));
  left.Reset();
  EXPECT_FALSE(SomebodyListens(options.control_socket));
  const auto opening = Session::Open(options);
  EXPECT_EQ(opening.outcome.status, NdkStatus::kConnectionRefused);
  EXPECT_THAT(opening.outcome.hint, HasSubstr(options.control_socket));
  EXPECT_EQ(::unlink(options.control_socket.c_str()), 0);
}

TEST_F(SessionTest, ASocketPathThatIsTooLongIsRefused) {
  SessionOptions options;
  options.control_socket = "/" + std::string(120, 'a');
  EXPECT_EQ(Session::Open(options).outcome.status, NdkStatus::kInvalidParameter);
}

TEST_F(SessionTest, AnObjectThatIsCreatedComesWithItsCompletion) {
  OpenSession();
  EXPECT_EQ(adapter->CreateConnector(ExactlyOnce("created",
                                                 [&](const Outcome& outcome, std::shared_ptr<Connector> made) {
                                                   EXPECT_TRUE(outcome.ok());
                                                   // The object is good within its completion.
                                                   EXPECT_EQ(made->Close(LogsClose("closed")), NdkStatus::kPending);
                                                 })),
            NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
}

TEST_F(SessionTest, AFailedCreateHasNoObjectAndAllThatTheBrokerSays) {
  OpenSession();
  Broker::Answer failure = Broker::Failure(NdkStatus::kInsufficientResources, "connectors_per_session: 3 are open");
  failure.outcome.set_provider_error(12);
  failure.outcome.set_retryable(true);
  failure.outcome.set_retry_same_qp(true);
  broker.On("CreateConnector", [failure](const Broker::Request&) { return failure; });
  const Later<Outcome> done;
  adapter->CreateConnector([done](const Outcome& outcome, const std::shared_ptr<Connector>& made) {
    EXPECT_EQ(made, nullptr);
    done.Set(outcome);
  });
  const Outcome outcome = done.Get();
  EXPECT_EQ(outcome.status, NdkStatus::kInsufficientResources);
  EXPECT_EQ(outcome.provider_error, 12u);
  EXPECT_TRUE(outcome.retryable);
  EXPECT_TRUE(outcome.retry_same_qp);
  EXPECT_EQ(outcome.hint, "connectors_per_session: 3 are open");
}

TEST_F(SessionTest, AMissingCompletionIsRefusedInline) {
  OpenSession();
  EXPECT_EQ(adapter->CreateConnector({}), NdkStatus::kInvalidParameter);
  EXPECT_EQ(adapter->CreateListener({}, [](const Outcome&, std::shared_ptr<Listener>) {}),
            NdkStatus::kInvalidParameter);
  EXPECT_EQ(session->ListAdapters({}), NdkStatus::kInvalidParameter);
}

TEST_F(SessionTest, ADeviceNameThatNoMessageCanHaveIsRefusedInline) {
  OpenSession();
  const auto ask = [&](const char* name) {
    return session->OpenAdapter(name, kNdkVersion, {}, [](const Outcome&, const std::shared_ptr<Adapter>&) {});
  };
  // A continuation alone, a character cut short, three too long for what they say, a surrogate, two too large.
  for (const char* name : {"nic\x80", "nic\xe2\x82", "\xc1\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "nic\xff"}) {
    EXPECT_EQ(ask(name), NdkStatus::kInvalidParameter) << name;
  }
  for (const char* name : {"nic0", "\xc2\xa2", "\xe2\x82\xac", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ask(name), NdkStatus::kPending) << name;
  }
  broker.WaitFor("OpenAdapter", 6);  // The fixture's, too.
}

TEST_F(SessionTest, ACallNeverCompletesWithinItself) {
  OpenSession();
  std::mutex held;  // A completion within the call would wait for it for ever.
  for (int i = 0; i < 50; ++i) {
    const Later<bool> done;
    {
      const std::lock_guard lock(held);
      adapter->CreateConnector([&held, done](const Outcome&, const std::shared_ptr<Connector>& made) {
        { const std::lock_guard taken(held); }
        made->Close({});
        done.Set(true);
      });
    }
    EXPECT_TRUE(done.Get());
  }
}

TEST_F(SessionTest, EventsAreAcknowledgedByRequestsAndWhenThereAreNone) {
  OpenSession();
  const auto listener = NewListener([](std::shared_ptr<Connector> connector) { connector->Close({}); });
  const uint64_t id = broker.WaitFor("Listen").object;
  broker.Emit(Broker::ConnectEvent(id, 900));
  EXPECT_EQ(broker.WaitFor("CloseConnector").acknowledged_event, 1u);
  for (uint64_t i = 0; i < 3; ++i) broker.Emit(Broker::DisconnectEvent(5000 + i));
  EXPECT_EQ(broker.WaitForAcknowledgement(4), 4u);
}

TEST_F(SessionTest, NoMoreRequestsAreUnansweredThanTheBrokerKeepsAnswersFor) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_answers_kept(4); });
  std::vector<uint64_t> held;
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  std::atomic<int> made = 0;
  for (int i = 0; i < 10; ++i) {
    adapter->CreateConnector(ExactlyOnce("created", [&](const Outcome&, std::shared_ptr<Connector>) { ++made; }));
  }
  const auto count = [&] {
    size_t seen = 0;
    for (const auto& request : broker.requests()) seen += request.method == "CreateConnector" ? 1 : 0;
    return seen;
  };
  const Broker::Request first = broker.WaitFor("CreateConnector", 4);
  Settle();
  EXPECT_EQ(count(), 4u);
  // The oldest holds the window, whatever becomes of the others.
  broker.Release(first.request_id, Broker::Failure(NdkStatus::kNoMemory));
  Settle();
  EXPECT_EQ(count(), 4u);
  broker.Release(broker.WaitFor("CreateConnector", 1).request_id, Broker::Failure(NdkStatus::kNoMemory));
  broker.WaitFor("CreateConnector", 5);
  session->Close({});
  session = nullptr;
  EXPECT_EQ(made, 10);
}

TEST_F(SessionTest, ALostReplyIsAskedForAgainUnderTheSameId) {
  OpenSession();
  ExpectLostRepliesAreAskedForAgain();
}

TEST_F(SessionTest, ABrokerThatNeverAnswersEndsTheSession) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(300); });
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kLose, {}}; });
  adapter->CreateConnector(ExactlyOnce("created", [&](const Outcome& outcome, std::shared_ptr<Connector>) {
    log.Add("create " + Name(outcome.status));
  }));
  EXPECT_THAT(log.WaitFor(2),
              ElementsAre("create STATUS_CONNECTION_DISCONNECTED", "session STATUS_CONNECTION_DISCONNECTED"));
}

TEST_F(SessionTest, WhenTheBrokerDiesAndNoneFollowsEverythingEndsOnceAndANewSessionOpens) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(300); });
  const auto connected = Established(qp, LogsEnd("disconnected"));
  auto* const other = new FakeQueuePair(adapter->data());
  broker.On("Connect", [](const Broker::Request&) { return Broker::Pending(); });
  const auto connecting = NewConnector();
  ASSERT_EQ(connecting->Connect(other, {.destination = kSomeAddress}, Logs("connect")), NdkStatus::kPending);
  const auto listener = NewListener([](const auto&) { FAIL(); });
  listener->OnSessionEnd([this](NdkStatus status) { log.Add("listener " + Name(status)); });
  broker.WaitFor("Connect", 2);
  Settle();
  broker.Die();
  EXPECT_THAT(log.WaitFor(4),
              ElementsAre("connect STATUS_CONNECTION_DISCONNECTED", "disconnected STATUS_CONNECTION_DISCONNECTED",
                          "listener STATUS_CONNECTION_DISCONNECTED", "session STATUS_CONNECTION_DISCONNECTED"));
  // Every object takes its close, in any order, and nothing else.
  EXPECT_EQ(listener->Listen(kSomeAddress, [](const Outcome&) {}), NdkStatus::kConnectionDisconnected);
  EXPECT_EQ(adapter->CreateConnector([](const Outcome&, auto) {}), NdkStatus::kConnectionDisconnected);
  BlockingClose(listener);
  BlockingClose(connecting);
  BlockingClose(connected);
  BlockingClose(adapter);
  EXPECT_EQ(other->Close({}), NdkStatus::kSuccess);

  ScriptedBroker next;
  SessionOptions options;
  options.control_socket = next.control_socket();
  EXPECT_TRUE(Session::Open(options).outcome.ok());
}

TEST_F(SessionTest, OfARequestThatTheSessionEndsUnderItIsSaidWhetherItMayHaveBeenCarriedOut) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(300); });
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Pending(); });
  const auto create = [this] {
    Later<Outcome> done;
    adapter->CreateConnector([done](const Outcome& outcome, const std::shared_ptr<Connector>&) { done.Set(outcome); });
    return done;
  };
  const Later<Outcome> sent = create();
  broker.WaitFor("CreateConnector");
  broker.RefuseReturns(Broker::KeptSession());
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  broker.WaitForStreams(2);
  const Later<Outcome> unsent = create();
  const Outcome unknown = sent.Get();
  EXPECT_EQ(unknown.status, NdkStatus::kConnectionDisconnected);
  EXPECT_THAT(unknown.hint, HasSubstr("not known"));
  EXPECT_THAT(unknown.hint, HasSubstr("before asking again, open another session and look at what is there"));
  EXPECT_THAT(unsent.Get().hint, Not(HasSubstr("not known")));
}

TEST_F(SessionTest, MoreRequestsThanMayWaitAreRefused) {
  OpenSession();
  broker.RefuseReturns(Broker::KeptSession());
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  broker.WaitForStreams(2);
  constexpr int kMaxWaiting = RequestQueue::kMostWaiting;
  const Later<Outcome> refused;
  for (int i = 0; i <= kMaxWaiting; ++i) {
    adapter->CreateConnector([i, refused](const Outcome& outcome, const std::shared_ptr<Connector>&) {
      if (i == kMaxWaiting) refused.Set(outcome);
    });
  }
  EXPECT_EQ(refused.Get().status, NdkStatus::kInsufficientResources);
}

TEST_F(SessionTest, AnAdministratorsEndIsToldAsSuch) {
  OpenSession();
  broker.EndStream(Broker::FailedRpc(Broker::Error(NdkStatus::kRequestAborted)));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_REQUEST_ABORTED"));
}

TEST_F(SessionTest, AStreamThatTheBrokerEndsIsReturnedTo) {
  OpenSession();
  const auto listener = NewListener([this](const std::shared_ptr<Connector>& connector) {
    log.Add("connect");
    connector->Close({});
  });
  const uint64_t id = broker.WaitFor("Listen").object;
  broker.Emit(Broker::ConnectEvent(id, 900));
  log.WaitFor(1);
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  broker.WaitForStreams(2);
  // Events that were dealt with may come again; they are not told again.
  v1::SessionEvent again = Broker::ConnectEvent(id, 901);
  again.set_number(1);
  broker.Emit(again);
  broker.Emit(Broker::ConnectEvent(id, 902));
  EXPECT_THAT(log.WaitFor(2), ElementsAre("connect", "connect"));
  EXPECT_NE(NewConnector(), nullptr);
  EXPECT_THAT(log.lines(), ElementsAre("connect", "connect"));
}

TEST_F(SessionTest, AStreamThatIsBrokenOffBecauseTheClientDoesNotReadIsReturnedTo) {
  OpenSession();
  const auto connected = Established(qp, LogsEnd("disconnected"));
  const uint64_t id = broker.WaitFor("Connect").object;
  const Later<bool> go_on;
  adapter->CreateConnector([this, go_on](const Outcome&, const std::shared_ptr<Connector>& made) {
    made->Close({});
    log.Add("stuck");
    EXPECT_TRUE(go_on.Get());
  });
  log.WaitFor(1);
  // More than a stream may have under way.
  for (uint64_t i = 0; i < 5000; ++i) broker.Emit(Broker::DisconnectEvent(5000 + i));
  broker.BreakStream();
  go_on.Set(true);
  broker.WaitForStreams(2);
  broker.Emit(Broker::DisconnectEvent(id));
  EXPECT_THAT(log.WaitFor(2), ElementsAre("stuck", "disconnected STATUS_SUCCESS"));
  EXPECT_NE(NewConnector(), nullptr);
  BlockingClose(connected);
  EXPECT_THAT(log.lines(), ElementsAre("stuck", "disconnected STATUS_SUCCESS"));
}

// As where its process has died: neither the stream nor a request gets a word, and both are begun again.
TEST_F(SessionTest, AStreamThatEndsWithoutAWordIsReturnedTo) {
  OpenSession();
  broker.On("CreateConnector", [](const Broker::Request&) {
    Broker::Answer answer;
    answer.kind = Broker::Answer::Kind::kHold;
    return answer;
  });
  const Later<std::shared_ptr<Connector>> made;
  adapter->CreateConnector([made](const Outcome&, std::shared_ptr<Connector> connector) { made.Set(connector); });
  const uint64_t id = broker.WaitFor("CreateConnector").request_id;
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Success(); });
  broker.EndStream({grpc::StatusCode::UNAVAILABLE, "Socket closed"});
  Broker::Answer lost;
  lost.kind = Broker::Answer::Kind::kLose;
  broker.Release(id, lost);
  EXPECT_NE(made.Get(), nullptr);
  EXPECT_EQ(broker.WaitFor("CreateConnector", 2).request_id, id);
  EXPECT_EQ(broker.streams(), 2u);
}

TEST_F(SessionTest, RequestsMadeWhileAwayAreSentAfterTheReturn) {
  OpenSession();
  broker.RefuseReturns(Broker::KeptSession());
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  broker.WaitForStreams(3);
  const Later<std::shared_ptr<Connector>> made;
  adapter->CreateConnector([made](const Outcome&, std::shared_ptr<Connector> connector) { made.Set(connector); });
  broker.WaitForStreams(5);
  for (const auto& request : broker.requests()) EXPECT_NE(request.method, "CreateConnector");
  broker.RefuseReturns({});
  EXPECT_NE(made.Get(), nullptr);
}

// The broker must not keep what it has until the grace period is over.
TEST_F(SessionTest, ASessionThatIsClosedWhileItIsAwayReturnsForThat) {
  OpenSession();
  broker.RefuseReturns(Broker::KeptSession());
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  broker.WaitForStreams(2);
  ASSERT_EQ(session->Close(LogsClose("closed")), NdkStatus::kPending);
  const size_t streams = broker.streams();
  broker.RefuseReturns({});
  broker.WaitForStreams(streams + 1);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
}

// The next broker would keep what the session has until the grace period is over.
TEST_F(SessionTest, ACloseThatTheBrokerDiesOfIsAskedForAgain) {
  OpenSession();
  broker.OnStream([closes = 0](const v1::SessionRequest& message) mutable {
    if (!message.has_close()) return grpc::Status::OK;
    const grpc::StatusCode codes[] = {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED, grpc::StatusCode::OK};
    return grpc::Status(codes[std::min(closes++, 2)], "");
  });
  ASSERT_EQ(session->Close(LogsClose("closed")), NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
  EXPECT_EQ(broker.streams(), 3u);
}

// The broker had closed it before it died.
TEST_F(SessionTest, ACloseOfASessionThatIsOverByThenEnds) {
  OpenSession();
  broker.RefuseReturns(Broker::Error(NdkStatus::kAccessDenied));
  broker.OnStream([](const v1::SessionRequest& message) {
    return message.has_close() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "") : grpc::Status::OK;
  });
  ASSERT_EQ(session->Close(LogsClose("closed")), NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
  EXPECT_EQ(broker.streams(), 2u);
}

TEST_F(SessionTest, ACloseThatNoBrokerLivesToHearEndsAllTheSame) {
  OpenSession();
  broker.OnStream([](const v1::SessionRequest&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, ""); });
  ASSERT_EQ(session->Close(LogsClose("closed")), NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
}

TEST_F(SessionTest, ASessionThatIsOverCannotBeReturnedTo) {
  OpenSession();
  broker.RefuseReturns(Broker::Error(NdkStatus::kAccessDenied));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
}

TEST_F(SessionTest, AReturnSaysInWhoseRecordsTheSessionWas) {
  OpenSession([](v1::SessionOpened* opened) { opened->set_lineage(77); });
  std::promise<uint64_t> said;
  broker.OnStream([&](const v1::SessionRequest& first) {
    said.set_value(first.resume().lineage());
    return Broker::FailedRpc(Broker::Error(NdkStatus::kAccessDenied));
  });
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_EQ(said.get_future().get(), 77u);
  log.WaitFor(1);
}

TEST_F(SessionTest, ASessionThatTheBrokerDoesNotKeepEndsAtOnce) {
  OpenSession();
  const auto connected = Established(qp, LogsEnd("disconnected"));
  broker.EndStream(Broker::FailedRpc(Broker::Error(NdkStatus::kConnectionDisconnected)));
  EXPECT_THAT(log.WaitFor(2),
              ElementsAre("disconnected STATUS_CONNECTION_DISCONNECTED", "session STATUS_CONNECTION_DISCONNECTED"));
  session = nullptr;
  EXPECT_EQ(broker.streams(), 1u);
}

TEST_F(SessionTest, AStopOfTheBrokerThatAReturnMeetsEndsTheSessionAtOnce) {
  OpenSession();
  broker.RefuseReturns(Broker::Error(NdkStatus::kConnectionDisconnected));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
}

TEST_F(SessionTest, TheGracePeriodBoundsTheReturn) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(30); });
  broker.RefuseReturns(Broker::KeptSession());
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
}

// By the clock: however slow the machine is, each wait is at least twice as long as the one before.
TEST_F(SessionTest, WhoIsTurnedAwayComesAgainLaterEachTime) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(1000); });
  broker.RefuseReturns(Broker::KeptSession());
  const auto lost = Clock::now();
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
  const auto away = Clock::now() - lost;
  size_t most = 1;  // The one that has opened the session.
  for (milliseconds wait(10), until = wait; until <= away;
       wait = std::min(2 * wait, milliseconds(1000)), until += wait) {
    ++most;
  }
  EXPECT_LE(broker.streams(), most);
}

TEST_F(SessionTest, AListThatIsLostIsAskedForAgainLaterEachTime) {
  constexpr int kLost = 5;
  OpenSession();
  broker.On("ListAdapters", [lost = std::make_shared<int>(0)](const Broker::Request&) {
    return ++*lost <= kLost ? Broker::Answer{Broker::Answer::Kind::kLose, {}} : Broker::Success();
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(BlockingListAdapters(*session).outcome.ok());
  // The shortest waits: 10 ms, 20 ms, 40 ms and so on.
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(10 * ((1 << kLost) - 1)));
}

TEST_F(SessionTest, AListThatWaitsToBeAskedForAgainEndsWithItsSession) {
  OpenSession();
  broker.On("ListAdapters", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kLose, {}}; });
  const auto listed = ExactlyOnce(
      "list", [this](const Outcome& outcome, const std::vector<Device>&) { log.Add("list " + Name(outcome.status)); });
  ASSERT_EQ(session->ListAdapters(listed), NdkStatus::kPending);
  broker.WaitFor("ListAdapters", 6);
  NewConnector();  // What the broker said before has come with it; the wait is a third of a second by now.
  session = nullptr;
  EXPECT_THAT(log.lines(), ElementsAre("list STATUS_CANCELLED"));
}

TEST_F(SessionTest, ClosingASessionEndsWhatIsPendingAndThenItself) {
  OpenSession();
  broker.On("Connect", [](const Broker::Request&) { return Broker::Pending(); });
  broker.On("CloseListener", [](const Broker::Request&) { return Broker::Pending(); });
  const auto connector = NewConnector();
  ASSERT_EQ(connector->Connect(qp, {.destination = kSomeAddress}, Logs("connect")), NdkStatus::kPending);
  const auto listener = NewListener([](const auto&) { FAIL(); });
  ASSERT_EQ(listener->Close(LogsClose("listener closed")), NdkStatus::kPending);
  broker.WaitFor("CloseListener");
  session->Close(LogsClose("session closed"));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect STATUS_CANCELLED", "listener closed", "session closed"));
  EXPECT_EQ(connector->Close([] { FAIL(); }), NdkStatus::kSuccess);
}

TEST_F(SessionTest, WhatIsClosedWhileTheSessionClosesTellsSoFirst) {
  OpenSession();
  broker.On("Connect", [](const Broker::Request&) { return Broker::Pending(); });
  const auto connector = NewConnector();
  ASSERT_EQ(connector->Connect(qp, {.destination = kSomeAddress},
                               [&](const Outcome& outcome) {
                                 log.Add("connect " + Name(outcome.status));
                                 EXPECT_EQ(connector->Close(LogsClose("connector closed")), NdkStatus::kPending);
                               }),
            NdkStatus::kPending);
  broker.WaitFor("Connect");
  session->Close(LogsClose("session closed"));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect STATUS_CANCELLED", "connector closed", "session closed"));
}

TEST_F(SessionTest, ASessionMayBeDestroyedWithinItsOwnCallback) {
  OpenSession();
  const Later<bool> gone;
  adapter->CreateConnector([this, gone](const Outcome&, const std::shared_ptr<Connector>&) {
    session = nullptr;
    gone.Set(true);
  });
  EXPECT_TRUE(gone.Get());
}

TEST_F(SessionTest, AStuckBrokerDoesNotHoldTheSessionsEnd) {
  OpenSession();
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  adapter->CreateConnector(ExactlyOnce(
      "created", [&](const Outcome& outcome, std::shared_ptr<Connector>) { log.Add(Name(outcome.status)); }));
  broker.WaitFor("CreateConnector");
  session = nullptr;
  EXPECT_THAT(log.lines(), ElementsAre("STATUS_CANCELLED"));
}

TEST_F(SessionTest, ADevicesEventsReachItsAdapterOnceEach) {
  OpenSession();
  const Later<std::shared_ptr<Adapter>> opened;
  const auto on_event = [this](AdapterEvent event) {
    log.Add(event == AdapterEvent::kRemoved ? "removed" : "disabled");
  };
  EXPECT_EQ(session->OpenAdapter("iwarp0", kNdkVersion, on_event,
                                 [opened](const Outcome&, std::shared_ptr<Adapter> made) { opened.Set(made); }),
            NdkStatus::kPending);
  const std::shared_ptr<Adapter> watched = opened.Get();
  // The fixture's adapter, which nobody watches, was opened before it.
  v1::SessionEvent disabled, unwatched;
  disabled.mutable_adapter_disabled()->set_adapter_id(Broker::kFirstObject + 1);
  const v1::SessionEvent removed = Removed(Broker::kFirstObject + 1);
  unwatched.mutable_adapter_disabled()->set_adapter_id(Broker::kFirstObject);
  for (const auto& event : {unwatched, disabled, disabled, removed, removed}) broker.Emit(event);
  EXPECT_EQ(broker.WaitForAcknowledgement(5), 5u);
  EXPECT_THAT(log.lines(), ElementsAre("disabled", "removed"));
}

TEST_F(SessionTest, WhoWaitsForPeersLearnsThatNoneCanCome) {
  OpenSession();
  const std::function<void(BlockingListener&)> ends[] = {
      [](BlockingListener& listener) { listener.listener()->Close({}); },
      [this](BlockingListener&) { session = nullptr; }};
  for (const auto& end : ends) {
    const auto made = BlockingListener::Listen(adapter, kSomeAddress);
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
    auto next =
        std::async(std::launch::async, [&] { return made.object->Next(std::chrono::seconds(20)).outcome.status; });
    end(*made.object);
    EXPECT_EQ(next.get(), NdkStatus::kCancelled);
  }
}

TEST_F(SessionTest, WhoWaitsForPeersLearnsThatTheDeviceIsGoneNowOrSinceBeforeTheListen) {
  OpenSession();
  for (const bool before : {false, true}) {
    const auto made = BlockingListener::Listen(adapter, kSomeAddress);
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
    auto next = std::async(std::launch::async, [&] { return made.object->Next(std::chrono::seconds(20)).outcome; });
    if (!before) broker.Emit(Removed(Broker::kFirstObject));
    const Outcome outcome = next.get();
    EXPECT_EQ(outcome.status, NdkStatus::kDeviceRemoved) << before;
    EXPECT_FALSE(outcome.hint.empty()) << before;
  }
}

TEST_F(SessionTest, ADevicesRemovalTurnsDownThePeersThatWaitAndNoOtherAdaptersListenerHearsOfIt) {
  OpenSession();
  const auto other = BlockingOpenAdapter(*session, "iwarp0");
  const auto made = BlockingListener::Listen(adapter, kSomeAddress);
  const auto others = BlockingListener::Listen(other.object, kSomeAddress);
  ASSERT_TRUE(made.outcome.ok() && others.outcome.ok());
  // The second adapter was made after the first, and then the listeners.
  constexpr uint64_t kListener = Broker::kFirstObject + 2, kConnector = 900;
  broker.Emit(Broker::ConnectEvent(kListener, kConnector));
  broker.Emit(Removed(Broker::kFirstObject));
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, kConnector);
  EXPECT_EQ(made.object->Next().outcome.status, NdkStatus::kDeviceRemoved);
  EXPECT_EQ(others.object->Next(std::chrono::milliseconds(0)).outcome.status, NdkStatus::kIoTimeout);
}

TEST_F(SessionTest, ADevicesRemovalReachesItsAdaptersDataPathAndNoOthers) {
  OpenSession();
  const auto other = BlockingOpenAdapter(*session, "iwarp0");
  broker.Emit(Removed(Broker::kFirstObject));
  EXPECT_EQ(broker.WaitForAcknowledgement(1), 1u);
  EXPECT_TRUE(static_cast<const FakeDataAdapter*>(adapter->data())->released());
  EXPECT_FALSE(static_cast<const FakeDataAdapter*>(other.object->data())->released());
}

TEST_F(SessionTest, BlockingFormsRefuseToWaitWithinACallback) {
  OpenSession();
  const Later<NdkStatus> inside;
  adapter->CreateConnector([this, inside](const Outcome&, const std::shared_ptr<Connector>& connector) {
    EXPECT_EQ(BlockingClose(connector), NdkStatus::kInvalidDeviceState);
    inside.Set(BlockingOpenAdapter(*session, "iwarp0").outcome.status);
  });
  EXPECT_EQ(inside.Get(), NdkStatus::kInvalidDeviceState);
}

}  // namespace
}  // namespace rdmabroker::client
