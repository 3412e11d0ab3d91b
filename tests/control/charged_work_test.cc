// SPDX-License-Identifier: Apache-2.0

// Work that takes the loop's time counts as a user's requests, whatever it is: a turn does some of it, and the rest
// waits for the next ones. And what waits in memory counts as what the user's connections hold.

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/rdmabroker/v1/inspection.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rpc/testing/frames.h"
#include "tests/control/raw_client.h"
#include "tests/control/stepped_daemon.h"

namespace rdmabroker {
namespace {

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
// Requests of a user that are served in a turn.
constexpr int kShare = 64;

// Each of a user's connections sends these octets at the same time. Serving all takes at least `turns` turns.
struct Work {
  const char* name;
  std::string octets;
  size_t connections;
  int turns;
};

void PrintTo(const Work& work, std::ostream* out) { *out << work.name; }

std::string CallsWithDeadline() {
  rpc::Headers headers = rpc::CallHeaders(kHealthCheck);
  headers.push_back({"grpc-timeout", "1m"});
  std::string octets;
  for (int i = 0; i < kShare; ++i) octets += rpc::HeadersFrame(1 + 2 * i, headers);
  return octets;
}

// Unknown fields without content, two octets each.
std::string CallWithManyFields() {
  std::string message;
  while (message.size() < 15'000) message += std::string("\x7A\0", 2);
  return rpc::HeadersFrame(1, rpc::CallHeaders(kHealthCheck)) +
         rpc::DataFrame(1, rpc::Framed(message), NGHTTP2_FLAG_END_STREAM);
}

std::string RefusedCallWithLongHeaders() {
  rpc::Headers headers = rpc::CallHeaders("/no.such/Method");
  headers.push_back({"long", std::string(12'000, 'x')});
  return rpc::HeadersFrame(1, headers, NGHTTP2_FLAG_END_STREAM);
}

class ChargedWork : public testing::TestWithParam<Work> {};

TEST_P(ChargedWork, IsDoneInSeveralTurns) {
  SteppedDaemon daemon;
  std::vector<std::unique_ptr<RawClient>> clients(GetParam().connections);
  for (auto& client : clients) {
    client = daemon.Connect();
    client->Flush();
  }
  daemon.Settle();
  for (const auto& client : clients) {
    while (!client->Receive().empty()) {
    }
  }
  daemon.Settle();
  for (const auto& client : clients) client->SendRaw(GetParam().octets);
  std::vector<bool> answered(clients.size());
  size_t answers = 0;
  const auto read = [&] {
    for (size_t i = 0; i < clients.size(); ++i) {
      if (answered[i] || clients[i]->Receive().empty()) continue;
      answered[i] = true;
      ++answers;
    }
  };
  // Calls with deadlines are answered when the clock moves.
  while (daemon.RunTurn()) {
    if (GetParam().octets != CallsWithDeadline()) break;
  }
  read();
  daemon.clock().Move(absl::Seconds(1));
  int turns = 1;
  for (; answers < clients.size() && daemon.RunTurn(); ++turns) read();
  EXPECT_EQ(answers, clients.size());
  EXPECT_GE(turns, GetParam().turns);
}

INSTANTIATE_TEST_SUITE_P(Of, ChargedWork,
                         testing::Values(Work{"Deadlines", CallsWithDeadline(), 4, 4},
                                         Work{"Fields", CallWithManyFields(), 32, 6},
                                         Work{"Headers", RefusedCallWithLongHeaders(), 16, 3}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(AnExplanation, IsChargedAsAPage) {
  constexpr int kCalls = 8;
  SteppedDaemon daemon;
  SteppedClient client(daemon);
  v1::CreateConnectorRequest create;
  create.set_adapter_id(client.adapter());
  client.Ask(create);
  daemon.Settle();
  v1::ExplainConnectorRequest explain;
  explain.set_connector_id(daemon.records().connectors.begin()->first.value());
  rpc::CallId last = 0;
  for (int i = 0; i < kCalls; ++i) last = client.raw().Ask(explain);
  client.raw().Flush();
  int turns = 0;
  for (; !client.raw().status(last) && daemon.RunTurn(); ++turns) client.raw().Receive();
  EXPECT_TRUE(client.raw().status(last).has_value());
  EXPECT_GE(turns, kCalls);
}

TEST(TheEndOfAConnection, TakesTheStreamsOfSomeSessionsInATurn) {
  constexpr int64_t kSessions = 32;
  // The end of a session costs as many requests. The last one in a turn may exceed the share.
  constexpr int64_t kOfEnd = 8;
  SteppedDaemon daemon;
  auto client = daemon.Connect();
  std::vector<std::unique_ptr<RawSession>> sessions;
  for (int64_t i = 0; i < kSessions; ++i) {
    sessions.push_back(std::make_unique<RawSession>(*client));
    ASSERT_TRUE(daemon.Open(*client, *sessions.back()));
  }
  sessions.clear();
  client.reset();
  int64_t left = kSessions;
  while (daemon.RunTurn()) {
    const auto& all = daemon.records().sessions;
    const auto has_stream = [](const auto& session) { return static_cast<bool>(session.second.stream); };
    const int64_t before = std::exchange(left, std::count_if(all.begin(), all.end(), has_stream));
    EXPECT_LE((before - left - 1) * kOfEnd, kShare);
  }
  EXPECT_EQ(left, 0u);
}

// The sessions end in one turn, and their objects in several, however the sessions' ends come.
TEST(TheEndsOfManySessions, CloseSomeOfTheirObjectsInATurn) {
  constexpr size_t kSessions = 6;
  constexpr size_t kObjects = 60;
  SteppedDaemon daemon;
  std::vector<std::unique_ptr<SteppedClient>> clients;
  for (size_t i = 0; i < kSessions; ++i) {
    clients.push_back(std::make_unique<SteppedClient>(daemon, std::vector<std::string>{"requests-on-stream"}));
    clients.back()->Send(clients.back()->BatchOf(kObjects));
    daemon.Settle();
  }
  ASSERT_EQ(daemon.records().connectors.size(), kSessions * kObjects);
  for (const auto& client : clients) {
    client->session().HalfClose();
    client->raw().Flush();
  }
  size_t left = daemon.records().connectors.size();
  while (daemon.RunTurn()) {
    const size_t before = std::exchange(left, daemon.records().connectors.size());
    EXPECT_LE(before - left, size_t{kShare});
  }
  EXPECT_EQ(left, 0u);
}

class HeldOctets : public testing::Test {
 protected:
  // A session whose client reads so little that a reply is always under way.
  static constexpr uint32_t kWindow = 512;

  static Configuration WithAnswers(uint32_t kept) {
    Configuration configuration = TestConfiguration();
    configuration.limits.answers_kept = kept;
    return configuration;
  }

  SteppedDaemon daemon_{WithAnswers(1024)};
  SteppedClient client_{daemon_, {"requests-on-stream"}, {.window = kWindow}};
};

TEST_F(HeldOctets, CountABatchThatWaitsForItsTurn) {
  client_.Send(client_.BatchOf(kShare));
  daemon_.Settle();
  const size_t before = daemon_.held();
  const v1::SessionRequest batch = client_.BatchOf(1000);
  client_.Send(batch);
  daemon_.Settle();
  // Some of it was asked for before the answers became too many.
  EXPECT_GE(daemon_.held(), before + batch.requests().SpaceUsedLong());
}

TEST_F(HeldOctets, AreNoneOfABatchThatIsRefused) {
  constexpr size_t kMost = 65536;
  client_.Send(client_.BatchOf(kShare));
  daemon_.Settle();
  const size_t before = daemon_.held();
  v1::SessionRequest message;
  for (int i = 0; i < 5000; ++i) message.mutable_requests()->add_requests();
  client_.Send(message);
  daemon_.Settle();
  EXPECT_LT(daemon_.held(), before + kMost);
  EXPECT_FALSE(client_.session().status()) << "a reply is under way";
}

TEST_F(HeldOctets, CountWhatTheClientHasNotReadAndNoLongerOnceItHas) {
  SteppedClient owner(daemon_, {"requests-on-stream"});
  owner.Send(owner.BatchOf(1000));
  daemon_.Settle();
  const auto client = daemon_.Connect();
  client->Flush();
  daemon_.Settle();
  const size_t before = daemon_.held();
  v1::ListConnectorsRequest list;
  list.mutable_page()->set_limit(1000);
  for (int i = 0; i < 2; ++i) {
    client->Ask(list);
    client->Flush();
    daemon_.Settle();
  }
  EXPECT_GE(daemon_.held(), before + 32'768);
  while (!client->Receive().empty()) {
  }
  daemon_.clock().Move(absl::Seconds(1));
  daemon_.Settle();
  EXPECT_LE(daemon_.held(), before) << "the client does nothing more";
}

}  // namespace
}  // namespace rdmabroker
