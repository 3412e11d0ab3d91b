// SPDX-License-Identifier: Apache-2.0

// Clients that leave with what they have said unserved, and clients that read nothing.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/control/served_connection.h"
#include "proto/rdmabroker/v1/inspection.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "tests/control/connections.h"
#include "tests/control/raw_client.h"
#include "tests/control/stepped_daemon.h"

namespace rdmabroker {
namespace {

const std::vector<std::string> kOnStream = {"requests-on-stream"};

bool HasStream(const SteppedDaemon& daemon, SessionId id) {
  const auto session = daemon.records().sessions.find(id);
  return session != daemon.records().sessions.end() && session->second.stream;
}

// A stream takes four turns for a batch.
constexpr int kOfBatch = 256;
constexpr int kBatches = 2;
constexpr size_t kConnectors = kBatches * kOfBatch;
Configuration LongBatches() {
  Configuration configuration = TestConfiguration();
  configuration.limits.answers_kept = kOfBatch;
  return configuration;
}
void SendBatches(SteppedClient& client) {
  for (int i = 0; i < kBatches; ++i) client.Send(client.BatchOf(kOfBatch));
}

TEST(AClientThatLeaves, IsServedWhatItHasSaidBeforeItsConnectionEnds) {
  const struct {
    const char* name;
    std::function<void(SteppedClient&)> say;
    size_t connectors;
    bool closes;  // The session.
  } sayings[] = {
      {"batches", SendBatches, kConnectors, false},
      {"calls",
       [](SteppedClient& client) {
         v1::CreateConnectorRequest create;
         create.set_adapter_id(client.adapter());
         for (int i = 0; i < 100; ++i) client.Ask(create);
       },
       100, false},
      {"batches and its session's end",
       [](SteppedClient& client) {
         SendBatches(client);
         v1::SessionRequest close;
         close.mutable_close();
         client.Send(close);
       },
       0, true},
  };
  const auto leave = [](SteppedClient& client) { client.raw().socket().Reset(); };
  const auto shut = [](int how) {
    return [how](SteppedClient& client) { EXPECT_EQ(::shutdown(client.raw().socket().get(), how), 0); };
  };
  const auto nothing = [](SteppedClient&) {};
  const struct {
    const char* name;
    std::function<void(SteppedClient&)> before;  // It speaks.
    std::function<void(SteppedClient&)> after;
  } ways[] = {
      {"closes the connection", nothing, leave},
      {"closes it with a reply unread", [](SteppedClient& client) { client.Reserve(); }, leave},
      {"closes its own direction", nothing, shut(SHUT_WR)},
      {"closes the other direction", shut(SHUT_RD), nothing},
      {"closes both directions", nothing, shut(SHUT_RDWR)},
  };
  for (const auto& saying : sayings) {
    for (const auto& way : ways) {
      SCOPED_TRACE(absl::StrCat(saying.name, ", ", way.name));
      SteppedDaemon daemon(LongBatches());
      SteppedClient client(daemon, kOnStream);
      way.before(client);
      saying.say(client);
      way.after(client);
      daemon.Settle();
      EXPECT_EQ(daemon.records().connectors.size(), saying.connectors);
      client.raw().socket().Reset();
      daemon.Settle();
      EXPECT_FALSE(HasStream(daemon, client.id()));
      EXPECT_EQ(daemon.records().sessions.contains(client.id()), !saying.closes) << "it may return";
    }
  }
}

TEST(AClientThatLeaves, HearsAllAnswersIfItHasClosedItsOwnDirectionOnly) {
  SteppedDaemon daemon(LongBatches());
  SteppedClient client(daemon, kOnStream);
  SendBatches(client);
  EXPECT_EQ(::shutdown(client.raw().socket().get(), SHUT_WR), 0);
  daemon.Settle();
  while (!client.raw().Receive().empty()) continue;
  EXPECT_EQ(client.session().answers(), kBatches * kOfBatch);
  EXPECT_TRUE(IsOver(client.raw().socket()));
}

// The broker does not take its batches while so many answers wait for it.
TEST(AClientThatLeaves, IsGivenUpWhenWhatItHasSaidIsNotServedInTime) {
  SteppedDaemon daemon(LongBatches());
  SteppedClient client(daemon, kOnStream);
  for (int i = 0; i < 20; ++i) {
    v1::SessionRequest batch = client.BatchOf(kOfBatch);
    // Refused, with answers that are far longer than the requests.
    for (auto& request : *batch.mutable_requests()->mutable_requests()) {
      request.mutable_create_connector()->set_adapter_id(4711);
    }
    client.Send(batch);
  }
  daemon.Settle();
  client.raw().socket().Reset();
  daemon.Settle();
  EXPECT_TRUE(HasStream(daemon, client.id()));
  daemon.clock().Move(ServedConnection::kLastWords);
  EXPECT_TRUE(daemon.RunTurn());
  EXPECT_FALSE(HasStream(daemon, client.id()));
}

TEST(AClientThatReadsNothing, LosesItsConnectionWhenItHasReadNoneOfItForSoLong) {
  const absl::Duration part = ServedConnection::kUnreadPatience * 2 / 3;
  SteppedDaemon daemon(LongBatches());
  SteppedClient client(daemon, kOnStream);
  SendBatches(client);
  EXPECT_TRUE(daemon.RunUntil([&] {
    client.raw().Receive();
    return daemon.records().connectors.size() == kConnectors;
  }));
  // Nearly a megabyte of replies; the system takes a quarter from the broker for the client.
  v1::ListConnectorsRequest list;
  list.mutable_page()->set_limit(1000);
  for (int i = 0; i < 120; ++i) client.raw().Ask(list);
  client.raw().Flush();
  daemon.Settle();
  daemon.clock().Move(part);
  daemon.RunTurn();
  EXPECT_TRUE(HasStream(daemon, client.id()));
  // The system takes more only when much has been read.
  while (!daemon.RunTurn()) ASSERT_FALSE(client.raw().Receive().empty());
  daemon.Settle();
  daemon.clock().Move(part);
  daemon.RunTurn();
  EXPECT_TRUE(HasStream(daemon, client.id())) << "it has read some since";
  daemon.clock().Move(part);
  daemon.RunTurn();
  EXPECT_FALSE(HasStream(daemon, client.id()));
}

}  // namespace
}  // namespace rdmabroker
