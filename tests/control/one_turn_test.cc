// SPDX-License-Identifier: Apache-2.0

// What comes in one turn of the loop, of which the one changes what the other is about; and how much of what comes a
// turn takes.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "broker/runtime/loop.h"
#include "proto/rdmabroker/v1/administration.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "tests/captured_log.h"
#include "tests/control/connections.h"
#include "tests/control/raw_client.h"
#include "tests/control/stepped_daemon.h"
#include "tests/control/test_client.h"

namespace rdmabroker {
namespace {

const std::vector<std::string> kOnStream = {"requests-on-stream"};

// Requests of a user that are taken in a turn.
constexpr int kMostAtATime = 64;

v1::EndSessionRequest EndOf(SessionId session) {
  v1::EndSessionRequest request;
  request.set_session_id(session.value());
  return request;
}
v1::DisableAdapterRequest DisableOf(const std::string& device) {
  v1::DisableAdapterRequest request;
  request.set_device(device);
  return request;
}
v1::SessionRequest ReturnTo(SteppedClient& client) {
  const v1::SessionOpened opened = client.session().replies().at(0).opened();
  v1::SessionRequest message;
  message.mutable_resume()->set_session_id(opened.session_id());
  message.mutable_resume()->set_session_secret(opened.session_secret());
  message.mutable_resume()->set_api_minor(2);
  return message;
}

TEST(OneTurn, ThatBringsASessionsEventAndItsEndEndsItsStreamWithTheRightStatus) {
  struct Stage {
    SteppedDaemon daemon;
    std::unique_ptr<RawClient> other = daemon.Connect();
    std::unique_ptr<SteppedClient> client;

    void Order(const google::protobuf::Message& order) {
      other->Ask(order);
      other->Flush();
    }
  };
  const struct {
    const char* name;
    std::function<void(Stage&)> come;
  } events[] = {
      {"the fabric reports", [](Stage& stage) { stage.daemon.Report(); }},
      {"an administrator disables the device", [](Stage& stage) { stage.Order(DisableOf("fake1")); }},
      {"its client makes a request",
       [](Stage& stage) {
         v1::CreateConnectorRequest create;
         create.set_adapter_id(stage.client->adapter());
         stage.client->Ask(create);
       }},
  };
  const struct {
    const char* name;
    std::function<void(Stage&)> come;
    NdkStatus status;
  } ends[] = {
      {"an administrator ends it", [](Stage& stage) { stage.Order(EndOf(stage.client->id())); },
       NdkStatus::kRequestAborted},
      {"its client closes it",
       [](Stage& stage) {
         v1::SessionRequest close;
         close.mutable_close();
         stage.client->Send(close);
       },
       NdkStatus::kSuccess},
      {"its client closes its side",
       [](Stage& stage) {
         stage.client->session().HalfClose();
         stage.client->raw().Flush();
       },
       NdkStatus::kSuccess},
  };
  for (const auto& event : events) {
    for (const auto& end : ends) {
      for (const bool with_batches : {false, true}) {
        SCOPED_TRACE(absl::StrCat(event.name, ", ", end.name, with_batches ? ", with batches" : ""));
        Stage stage;
        stage.client =
            std::make_unique<SteppedClient>(stage.daemon, with_batches ? kOnStream : std::vector<std::string>());
        stage.client->Reserve();
        event.come(stage);
        end.come(stage);
        EXPECT_TRUE(stage.daemon.RunTurn());
        const auto& sessions = stage.daemon.records().sessions;
        const auto session = sessions.find(stage.client->id());
        EXPECT_TRUE(session == sessions.end() || session->second.ended) << "one turn is enough";
        ASSERT_TRUE(stage.client->StreamEnds());
        EXPECT_EQ(NdkStatusOf(*stage.client->session().status()), end.status);
        EXPECT_EQ(stage.client->session().events(), 0);
        EXPECT_TRUE(stage.daemon.RunUntil([&] { return sessions.empty(); }));
      }
    }
  }
}

TEST(OneTurn, ThatBringsASessionsEventAndAnotherStreamOfItTellsTheLatter) {
  SteppedDaemon daemon;
  SteppedClient client(daemon);
  const auto other = daemon.Connect();
  client.Reserve();
  const rpc::CallId stream = other->Begin("/rdmabroker.v1.Broker/Session");
  other->Send(stream, ReturnTo(client));
  other->Flush();
  daemon.Report();
  EXPECT_TRUE(daemon.RunTurn());
  ASSERT_TRUE(client.StreamEnds());
  EXPECT_EQ(NdkStatusOf(*client.session().status()), NdkStatus::kRequestAborted);
  EXPECT_TRUE(daemon.RunUntil([&] {
    other->Receive();
    return other->replies(stream).size() == 2;
  }));
}

TEST(OneTurn, ThatBringsABatchAndTheSessionsEndAnswersTheBatchIfThatCameFirst) {
  constexpr int kRequests = kMostAtATime / 2;
  for (const bool batch_first : {true, false}) {
    // What the fabric has to give up keeps the session's record until then.
    for (const bool record_stays : {true, false}) {
      SCOPED_TRACE(absl::StrCat("the batch first: ", batch_first, "; the record stays: ", record_stays));
      SteppedDaemon daemon;
      SteppedClient client(daemon, kOnStream);
      if (record_stays) client.Reserve();
      const auto other = daemon.Connect();
      const auto end = [&] {
        other->Ask(EndOf(client.id()));
        other->Flush();
      };
      if (!batch_first) end();
      client.Send(client.BatchOf(kRequests));
      if (batch_first) end();
      EXPECT_TRUE(daemon.RunTurn());
      EXPECT_EQ(daemon.records().sessions.contains(client.id()), record_stays);
      ASSERT_TRUE(client.StreamEnds());
      EXPECT_EQ(NdkStatusOf(*client.session().status()), NdkStatus::kRequestAborted);
      EXPECT_EQ(client.session().answers(), batch_first ? kRequests : 0);
    }
  }
}

TEST(OneTurn, ThatBringsARequestByTheStreamAndTheSameByACallDoesItOnceAndAnswersBoth) {
  for (const bool stream_first : {true, false}) {
    SCOPED_TRACE(stream_first);
    SteppedDaemon daemon;
    SteppedClient client(daemon, kOnStream);
    const v1::SessionRequest batch = client.BatchOf(1);
    v1::CreateConnectorRequest create;
    create.set_adapter_id(client.adapter());
    create.mutable_header()->set_session_id(client.id().value());
    create.mutable_header()->set_request_id(batch.requests().requests(0).request_id());
    if (stream_first) client.Send(batch);
    const rpc::CallId call = client.raw().Ask(create);
    client.raw().Flush();
    if (!stream_first) client.Send(batch);
    EXPECT_TRUE(daemon.RunTurn());
    EXPECT_EQ(daemon.records().connectors.size(), 1u);
    daemon.Settle();
    client.raw().Receive();
    ASSERT_EQ(client.session().answers(), 1);
    ASSERT_EQ(client.raw().replies(call).size(), 1u);
    EXPECT_TRUE(client.raw().status(call).value().ok());
    const v1::BatchedAnswer answer = client.session().replies().back().batch().answers(0);
    EXPECT_EQ(answer.request_id(), batch.requests().requests(0).request_id());
    EXPECT_EQ(answer.outcome().SerializeAsString(), client.raw().replies(call)[0]);
    EXPECT_NE(answer.outcome().connector_created().connector_id(), 0u);
    EXPECT_EQ(daemon.records().connectors.size(), 1u);
  }
}

// A reply is under way, as the client does not read, and further answers wait for the next one.
TEST(OneTurn, ThatBringsTheEndOfASessionThatHasNotReadItsAnswersSendsThemBeforeTheStatus) {
  SteppedDaemon daemon;
  // The window is too small for the first reply.
  SteppedClient client(daemon, kOnStream, {.window = 512});
  const auto other = daemon.Connect();
  for (int i = 0; i < 2; ++i) {
    client.Send(client.BatchOf(kMostAtATime));
    daemon.Settle();
  }
  other->Ask(EndOf(client.id()));
  other->Flush();
  daemon.Settle();
  ASSERT_TRUE(client.StreamEnds());
  EXPECT_EQ(NdkStatusOf(*client.session().status()), NdkStatus::kRequestAborted);
  EXPECT_EQ(client.session().answers(), 2 * kMostAtATime);
}

TEST(OneTurn, ThatBringsTheEndOfASessionWithManyObjectsDoesNotKeepOthersUntilAllAreClosed) {
  constexpr int kBatches = 8;
  SteppedDaemon daemon;
  SteppedClient ending(daemon, kOnStream);
  SteppedClient other(daemon);
  for (int i = 0; i < kBatches; ++i) {
    ending.Send(ending.BatchOf(kMostAtATime));
    daemon.Settle();
  }
  ASSERT_EQ(daemon.records().connectors.size(), size_t{kBatches} * kMostAtATime);
  other.raw().Ask(EndOf(ending.id()));
  other.raw().Flush();
  EXPECT_TRUE(daemon.RunTurn());
  EXPECT_TRUE(daemon.records().sessions.at(ending.id()).ended);
  v1::CreateConnectorRequest create;
  create.set_adapter_id(other.adapter());
  const rpc::CallId call = other.Ask(create);
  EXPECT_TRUE(daemon.RunTurn());
  other.raw().Receive();
  EXPECT_TRUE(other.raw().status(call).has_value());
  EXPECT_GT(daemon.records().connectors.size(), size_t{kBatches / 2} * kMostAtATime);
  daemon.Settle();
  EXPECT_EQ(daemon.records().connectors.size(), 1u);
}

// The client asks for little, but the broker looks at all events of the session.
TEST(OneTurn, ThatBringsTheReturnOfASessionWithManyEventsIsPaidForInTheUsersNextTurns) {
  constexpr int kRounds = 32;
  SteppedDaemon daemon;
  SteppedClient client(daemon, kOnStream);
  for (int round = 0; round < kRounds; ++round) {
    client.Send(client.ReservationsOf(kMostAtATime));
    daemon.Settle();
    client.Send(client.ReleaseOfAll());
    daemon.Settle();
    client.raw().Receive();
    client.raw().Flush();
  }
  ASSERT_EQ(daemon.records().sessions.at(client.id()).events.size(), size_t{2} * kRounds * kMostAtATime);
  const v1::SessionRequest back = ReturnTo(client);
  client.raw().socket().Reset();
  daemon.Settle();
  const auto turns_of = [&daemon](const v1::SessionRequest* first) {
    const auto connection = daemon.Connect();
    if (first != nullptr) {
      const rpc::CallId stream = connection->Begin("/rdmabroker.v1.Broker/Session");
      connection->Send(stream, *first);
      connection->Flush();
      EXPECT_TRUE(daemon.RunTurn());
    }
    const rpc::CallId call = connection->Ask(v1::ListAdaptersRequest());
    connection->Flush();
    int turns = 0;
    for (; !connection->status(call) && daemon.RunTurn(); ++turns) connection->Receive();
    return turns;
  };
  const int usual = turns_of(nullptr);
  EXPECT_GE(turns_of(&back), usual + 3);
}

// The stream is to write its event when the turn ends.
TEST(OneTurn, ThatBringsASessionsEventAndItsConnectionsEndKeepsTheEventForTheReturn) {
  SteppedDaemon daemon;
  SteppedClient client(daemon);
  const auto other = daemon.Connect();
  client.Reserve();
  client.raw().socket().Reset();
  EXPECT_TRUE(daemon.RunTurn()) << "its end is heard; it ends in the next turn";
  EXPECT_TRUE(static_cast<bool>(daemon.records().sessions.at(client.id()).stream));
  daemon.Report();
  EXPECT_TRUE(daemon.RunTurn());
  EXPECT_FALSE(static_cast<bool>(daemon.records().sessions.at(client.id()).stream));
  EXPECT_EQ(daemon.records().sessions.at(client.id()).events.size(), 1u);
  const rpc::CallId stream = other->Begin("/rdmabroker.v1.Broker/Session");
  other->Send(stream, ReturnTo(client));
  other->Flush();
  EXPECT_TRUE(daemon.RunUntil([&] {
    other->Receive();
    return other->replies(stream).size() == 2;
  }));
}

TEST(OneTurn, ThatBringsADevicesRemovalAndAnOrderAboutItTellsThatThereIsNoSuchDevice) {
  v1::EnableAdapterRequest enable;
  enable.set_device("fake1");
  const v1::DisableAdapterRequest disable = DisableOf("fake1");
  const google::protobuf::Message* const orders[] = {&disable, &enable};
  for (const bool in_use : {false, true}) {
    for (const google::protobuf::Message* const order : orders) {
      SCOPED_TRACE(absl::StrCat(order->GetDescriptor()->name(), in_use ? ", with an adapter" : ""));
      SteppedDaemon daemon;
      const auto client = in_use ? std::make_unique<SteppedClient>(daemon) : nullptr;
      const auto other = daemon.Connect();
      const rpc::CallId call = other->Ask(*order);
      other->Flush();
      daemon.fabric().RemoveDevice(DeviceId(1));
      daemon.Report();
      EXPECT_TRUE(daemon.RunTurn());
      other->Receive();
      ASSERT_TRUE(other->status(call).has_value()) << "one turn is enough";
      EXPECT_EQ(NdkStatusOf(*other->status(call)), NdkStatus::kObjectNameNotFound);
    }
  }
}

TEST(OneTurn, TakesSomeOfAClientsRequestsAndAnothersBeforeTheRest) {
  constexpr int kRequests = 4 * kMostAtATime;
  for (const int messages : {1, 4}) {
    SCOPED_TRACE(messages);
    Configuration configuration = TestConfiguration();
    configuration.limits.answers_kept = kRequests;
    SteppedDaemon daemon(configuration);
    SteppedClient busy(daemon, kOnStream);
    SteppedClient other(daemon);
    for (int i = 0; i < messages; ++i) busy.session().Send(busy.BatchOf(kRequests / messages));
    busy.raw().Flush();
    EXPECT_TRUE(daemon.RunTurn());
    v1::CreateConnectorRequest create;
    create.set_adapter_id(other.adapter());
    const rpc::CallId call = other.Ask(create);
    int turns = 1;
    for (; !other.raw().status(call) && daemon.RunTurn(); ++turns) other.raw().Receive();
    EXPECT_TRUE(other.raw().status(call).has_value());
    busy.raw().Receive();
    EXPECT_LE(busy.session().answers(), turns * kMostAtATime);
    EXPECT_LT(busy.session().answers(), kRequests);
    EXPECT_TRUE(daemon.RunUntil([&] {
      busy.raw().Receive();
      return busy.session().answers() == kRequests;
    }));
  }
}

// A client of the hand-off socket, which has asked for something.
UniqueFd AskForTransport(const SteppedDaemon& daemon) {
  UniqueFd client = ConnectAs(::getuid(), ::getgid(), daemon.handoff_path(), SOCK_SEQPACKET);
  EXPECT_EQ(::send(client.get(), "?", 1, MSG_NOSIGNAL), 1);
  return client;
}
// Reads the answer. Returns false if there is none yet.
bool IsAnswered(const UniqueFd& client) {
  char octet = 0;
  return ::recv(client.get(), &octet, 1, MSG_DONTWAIT) == 1;
}

TEST(OneTurn, TakesSomeOfAUsersConnectionsToTheHandoffSocket) {
  constexpr int kClients = 200;
  SteppedDaemon daemon;
  std::vector<UniqueFd> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(AskForTransport(daemon));
  int turns = 0;
  for (int64_t answers = 0; answers < kClients; ++turns) {
    ASSERT_TRUE(daemon.RunTurn()) << answers;
    answers += std::count_if(clients.begin(), clients.end(), IsAnswered);
  }
  // Each counts as two requests, and what it asks for as one.
  EXPECT_GE(turns, kClients * 3 / kMostAtATime);
}

TEST(OneTurn, TakesAUsersConnectionToTheHandoffSocketWhenItsRequestsLeaveTimeForThat) {
  SteppedDaemon daemon;
  SteppedClient busy(daemon, kOnStream);
  busy.Send(busy.BatchOf(kMostAtATime));
  const UniqueFd client = AskForTransport(daemon);
  EXPECT_TRUE(daemon.RunTurn());
  busy.raw().Receive();
  EXPECT_EQ(busy.session().answers(), kMostAtATime);
  EXPECT_TRUE(daemon.RunTurn());
  EXPECT_FALSE(IsAnswered(client)) << "it is taken in this turn, and heard in the next";
  EXPECT_TRUE(daemon.RunTurn());
  EXPECT_TRUE(IsAnswered(client));
}

double LongTurns(SteppedDaemon& daemon) {
  const auto families = daemon.metrics().Collect();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [](const auto& each) { return each.name == "rdma_broker_loop_long_turns_total"; });
  return family == families.end() ? -1 : family->metric.at(0).counter.value;
}

TEST(OneTurn, OfMoreThanTenMillisecondsIsCountedAndLoggedOnceASecondWithWhatTookLongest) {
  CapturedLog log;
  SteppedDaemon daemon;
  int line = 0;
  // A turn of two callbacks.
  const auto take = [&](int milliseconds, int longer_milliseconds) {
    const auto leave = [&](int for_milliseconds, CodePlace place) {
      daemon.loop().AtTurnEnd(
          Loop::Stage::kHandle,
          [&daemon, for_milliseconds] { daemon.clock().Move(absl::Milliseconds(for_milliseconds)); }, place);
    };
    leave(milliseconds, CodePlace::Here());
    line = __LINE__ + 1;
    leave(longer_milliseconds, CodePlace::Here());
    EXPECT_TRUE(daemon.RunTurn());
  };
  struct Row {
    int milliseconds;
    int longer_milliseconds;
    double counted;
    const char* told;  // Of the turn, and of those that were left out; null where nothing is logged.
    const char* left_out;
    absl::Duration before = absl::ZeroDuration();
  };
  for (const Row& row : {
           Row{4, 6, 0, nullptr, ""},
           Row{4, 7, 1, "milliseconds=11 longest_milliseconds=7", "0"},
           Row{20, 30, 2, nullptr, ""},
           Row{20, 30, 3, "milliseconds=50 longest_milliseconds=30", "1", absl::Seconds(1)},
       }) {
    SCOPED_TRACE(row.counted);
    daemon.clock().Move(row.before);
    daemon.Settle();
    const size_t before = log.LinesWith("clients held up").size();
    take(row.milliseconds, row.longer_milliseconds);
    EXPECT_EQ(LongTurns(daemon), row.counted);
    const std::vector<std::string> lines = log.LinesWith("clients held up");
    ASSERT_EQ(lines.size() - before, row.told == nullptr ? 0u : 1u);
    if (row.told == nullptr) continue;
    EXPECT_EQ(lines.back(),
              absl::StrCat("clients held up ", row.told, " longest=", __FILE__, ":", line, " left_out=", row.left_out));
  }
}

}  // namespace
}  // namespace rdmabroker
