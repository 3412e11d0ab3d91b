// SPDX-License-Identifier: Apache-2.0

// What the log tells of the lives of sessions, listeners and connectors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/log/log.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "tests/captured_log.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

// Nobody listens there.
constexpr uint16_t kClosedPort = 9;

class LifeLogTest : public testing::Test {
 protected:
  LifeLogTest() { SetLogLevel(LogLevel::kDebug); }
  ~LifeLogTest() override { SetLogLevel(LogLevel::kInfo); }

  std::unique_ptr<TestClient> NewClient() {
    auto client = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    EXPECT_EQ(client->Open(), NdkStatus::kSuccess);
    return client;
  }
  // That line, once; what another thread causes comes in a while.
  void ExpectOnce(const std::string& line) {
    EXPECT_TRUE(Becomes([&] { return !log_.LinesWith(line).empty(); })) << line;
    EXPECT_EQ(log_.LinesWith(line).size(), 1u) << line;
  }
  void ExpectNone(const std::string& line) { EXPECT_EQ(log_.LinesWith(line).size(), 0u) << line; }
  // A connect that fails; its connector.
  uint64_t FailToConnect(TestClient& client) {
    const uint64_t connector = client.CreateConnector(client.OpenAdapter("fake2"));
    const uint64_t request = client.StartConnect(connector, 7, TestAddress(2), TestAddress(1, kClosedPort));
    EXPECT_EQ(NdkStatusOf(client.WaitForOutcome(request)), NdkStatus::kConnectionRefused);
    return connector;
  }

  CapturedLog log_;
  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_ = std::make_unique<TestDaemon>(network_, Devices());

  static std::vector<FakeDevice> Devices() { return {TestDevice(1), TestDevice(2)}; }
};

TEST_F(LifeLogTest, ASessionOpensAndEndsWithWhoItIsAndWhy) {
  auto client = NewClient();
  const std::string id = absl::StrCat("session=", client->session_id());
  ExpectOnce(absl::StrCat("session opened ", id, " uid=", ::getuid(), " gid=", ::getgid(), " pid=", ::getpid(),
                          " left_out=0"));
  EXPECT_EQ(client->Close(), NdkStatus::kSuccess);
  ExpectOnce("session ended " + id + " why=\"the client has closed it\" left_out=0");

  auto dying = NewClient();
  dying->Vanish();
  ExpectOnce(absl::StrCat("session ended session=", dying->session_id(), " why=\"the client has ended\""));

  auto unwanted = NewClient();
  v1::EndSessionRequest request;
  request.set_session_id(unwanted->session_id());
  v1::EndSessionReply reply;
  grpc::ClientContext context;
  Limit(context);
  EXPECT_TRUE(v1::Administration::NewStub(unwanted->channel())->EndSession(&context, request, &reply).ok());
  ExpectOnce(absl::StrCat("policy decision decision=allowed action=EndSession rule=administrators session=",
                          unwanted->session_id(), " uid=", ::getuid()));
  ExpectOnce(absl::StrCat("session ended session=", unwanted->session_id(), " why=\"an administrator has ended it\""));
  ExpectNone("session away");
}

TEST_F(LifeLogTest, AConnectionIsFollowedFromItsRequestToItsEnd) {
  auto server = NewClient();
  auto client = NewClient();
  const auto [listener, address] = server->Listen(server->OpenAdapter("fake1"), TestAddress(1));
  const std::string of_listener = absl::StrCat("session=", server->session_id(), " listener=", listener);
  ExpectOnce(absl::StrCat("listener listening ", of_listener, " device=fake1 local=", address.ToString()));
  const TestConnection connection =
      ConnectClients(*server, address, *client, client->OpenAdapter("fake2"), TestAddress(2));
  const std::string active = absl::StrCat("session=", client->session_id(), " connector=", connection.active);
  const std::string passive = absl::StrCat("session=", server->session_id(), " connector=", connection.passive);
  ExpectOnce(absl::StrCat("connector requested ", of_listener, " connector=", connection.passive,
                          " local=", address.ToString(), " peer=192.0.2.2:"));
  ExpectOnce("connector established " + active + " device=fake2 local=192.0.2.2:");
  ExpectOnce("connector established " + passive + " device=fake1 local=" + address.ToString() + " peer=192.0.2.2:");

  EXPECT_NE(NdkStatusOf(client->CloseConnector(connection.active)), NdkStatus::kUnsuccessful);
  ExpectOnce("connector ended " + active + " device=fake2 local=192.0.2.2:");
  EXPECT_EQ(server->WaitForDisconnect(connection.passive).connector_id(), connection.passive);
  EXPECT_EQ(log_.LinesWith("connector ended " + passive).size() + log_.LinesWith("connector broken " + passive).size(),
            1u);
  server->Vanish();
  ExpectOnce("listener closed " + of_listener + " device=fake1 local=" + address.ToString());
  for (const char* secret : {"from the active side", "secret"}) ExpectNone(secret);
}

TEST_F(LifeLogTest, AFailureIsLoggedOnceWithItsStatusAndCauseThoughItsClientReturns) {
  auto client = NewClient();
  const uint64_t connector = FailToConnect(*client);
  const std::string line = absl::StrCat("connector failed session=", client->session_id(), " connector=", connector,
                                        " device=fake2 local=192.0.2.2:");
  ExpectOnce(line);
  EXPECT_THAT(log_.LinesWith(line)[0],
              testing::HasSubstr(absl::StrCat(" peer=", TestAddress(1, kClosedPort).ToString(),
                                              " status=STATUS_CONNECTION_REFUSED provider_error=")));
  EXPECT_THAT(log_.LinesWith(line)[0], testing::HasSubstr(" cause=\"destination "));
  TestClient again(NewChannel(daemon_->target()));
  ASSERT_EQ(again.Resume(*client, 0), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(again.WaitFor([](const auto& event) { return event.has_outcome(); }).outcome().outcome()),
            NdkStatus::kConnectionRefused);
  ExpectOnce(absl::StrCat("session resumed session=", client->session_id(), " uid="));
  ExpectOnce("connector failed");
}

TEST_F(LifeLogTest, ARefusalIsLoggedWithItsRequestAndCause) {
  auto client = NewClient();
  v1::CloseConnectorRequest request;
  request.set_connector_id(4711);
  EXPECT_EQ(NdkStatusOf(client->Ask(&v1::Broker::Stub::CloseConnector, request)), NdkStatus::kObjectNameNotFound);
  ExpectOnce(absl::StrCat("request refused session=", client->session_id(),
                          " request=1 status=STATUS_OBJECT_NAME_NOT_FOUND cause=\"connector 4711: unknown"));
}

TEST_F(LifeLogTest, TheUsualIsForThoseWhoAskForIt) {
  SetLogLevel(LogLevel::kInfo);
  auto server = NewClient();
  auto client = NewClient();
  const auto [listener, address] = server->Listen(server->OpenAdapter("fake1"), TestAddress(1));
  const TestConnection connection =
      ConnectClients(*server, address, *client, client->OpenAdapter("fake2"), TestAddress(2));
  EXPECT_NE(connection.active, 0u);
  FailToConnect(*client);
  client->Close();
  server->Close();
  std::vector<std::string> events;
  for (const std::string& line : log_.LinesWith("")) events.push_back(line.substr(0, line.find(" session=")));
  // A busy machine may hold the daemon up.
  std::erase_if(events, [](const std::string& event) { return event.starts_with("clients held up"); });
  EXPECT_THAT(events, ElementsAre("session opened", "session opened", StartsWith("connector failed"), "session ended",
                                  "session ended"));
}

}  // namespace
}  // namespace rdmabroker
