// SPDX-License-Identifier: Apache-2.0

// Sessions: their opening, their streams, and who may use them.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;

class SessionTest : public testing::Test {
 protected:
  void Start(const Configuration& configuration = TestConfiguration()) {
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1)}, configuration);
  }
  std::unique_ptr<TestClient> NewClient() { return std::make_unique<TestClient>(NewChannel(daemon_->target())); }
  std::unique_ptr<TestClient> Opened() {
    auto client = NewClient();
    EXPECT_EQ(client->Open(), NdkStatus::kSuccess);
    return client;
  }
  // How a stream ends whose first message this is.
  grpc::Status EndAfter(const v1::SessionRequest& first) {
    auto stub = v1::Broker::NewStub(NewChannel(daemon_->target()));
    grpc::ClientContext context;
    Limit(context);
    auto stream = stub->Session(&context);
    stream->Write(first);
    v1::SessionReply reply;
    EXPECT_FALSE(stream->Read(&reply));
    return stream->Finish();
  }
  bool SessionIsGone(uint64_t id) {
    return daemon_->Eventually([&](const Records& records) { return !records.sessions.contains(SessionId(id)); });
  }

  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
};

TEST_F(SessionTest, TellsWhatAClientMustKnow) {
  Configuration configuration = TestConfiguration();
  configuration.limits.events_kept = 77;
  Start(configuration);
  const auto client = Opened();
  EXPECT_NE(client->session_id(), 0u);
  EXPECT_EQ(client->opened().session_secret().size(), 16u);
  EXPECT_EQ(client->opened().api_minor(), 2u);
  EXPECT_EQ(client->opened().features_size(), 0);
  EXPECT_EQ(client->opened().limits().events_kept(), 77u);
  EXPECT_EQ(client->opened().limits().session_grace_ms(), 30000u);
  const auto other = Opened();
  EXPECT_NE(other->session_id(), client->session_id());
  EXPECT_NE(other->opened().session_secret(), client->opened().session_secret());
}

TEST_F(SessionTest, HasTheFeaturesThatBothSidesKnow) {
  Start();
  const auto client = NewClient();
  ASSERT_EQ(client->Open({"made-up", "listener-address-events"}), NdkStatus::kSuccess);
  ASSERT_EQ(client->opened().features_size(), 1);
  EXPECT_EQ(client->opened().features(0), "listener-address-events");
  EXPECT_EQ(client->Close(), NdkStatus::kSuccess);
}

TEST_F(SessionTest, EndsWithOkAfterClose) {
  Start();
  const auto client = Opened();
  client->OpenAdapter("fake1");
  EXPECT_EQ(client->Close(), NdkStatus::kSuccess);
  EXPECT_TRUE(SessionIsGone(client->session_id()));
}

TEST_F(SessionTest, EndsWithItsClient) {
  Start();
  const auto client = Opened();
  client->Listen(client->OpenAdapter("fake1"), TestAddress(1));
  client->Vanish();
  EXPECT_TRUE(SessionIsGone(client->session_id()));
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.endpoints.empty(); }));
}

TEST_F(SessionTest, EndsWhenTheClientClosesItsSide) {
  Start();
  auto stub = v1::Broker::NewStub(NewChannel(daemon_->target()));
  grpc::ClientContext context;
  Limit(context);
  auto stream = stub->Session(&context);
  v1::SessionRequest open;
  open.mutable_open()->set_api_minor(1);
  ASSERT_TRUE(stream->Write(open));
  v1::SessionReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(SessionIsGone(reply.opened().session_id()));
}

struct BadFirstMessage {
  const char* name;
  std::function<void(v1::SessionRequest&)> fill;
  NdkStatus status;
  const char* hint;
};

TEST_F(SessionTest, AMalformedFirstMessageIsRefusedWithTheNameOfTheField) {
  Start();
  const BadFirstMessage rows[] = {
      {"nothing", [](auto&) {}, NdkStatus::kInvalidParameter, "message: the first one must be open or resume"},
      {"acknowledge", [](auto& m) { m.mutable_acknowledge(); }, NdkStatus::kInvalidParameter, "message: the first"},
      {"close", [](auto& m) { m.mutable_close(); }, NdkStatus::kInvalidParameter, "message: the first"},
      {"no minor", [](auto& m) { m.mutable_open(); }, NdkStatus::kInvalidParameter, "api_minor: missing"},
      {"65 features",
       [](auto& m) {
         m.mutable_open()->set_api_minor(1);
         for (int i = 0; i < 65; ++i) m.mutable_open()->add_features("x");
       },
       NdkStatus::kInvalidParameter, "features: more than 64 names"},
      {"a long feature",
       [](auto& m) {
         m.mutable_open()->set_api_minor(1);
         m.mutable_open()->add_features(std::string(64, 'x'));
       },
       NdkStatus::kInvalidParameter, "features: a name of more than 63 bytes"},
      {"resume without a minor", [](auto& m) { m.mutable_resume(); }, NdkStatus::kInvalidParameter, "api_minor: miss"},
      {"a short secret",
       [](auto& m) {
         m.mutable_resume()->set_api_minor(1);
         m.mutable_resume()->set_session_secret("short");
       },
       NdkStatus::kInvalidParameter, "resume.session_secret: not 16 bytes"},
      {"an unknown session",
       [](auto& m) {
         m.mutable_resume()->set_api_minor(1);
         m.mutable_resume()->set_session_id(4711);
         m.mutable_resume()->set_session_secret(std::string(16, 'x'));
       },
       NdkStatus::kAccessDenied, "session 4711: no such session of this process"},
      {"a session of other records",
       [](auto& m) {
         m.mutable_resume()->set_api_minor(1);
         m.mutable_resume()->set_session_id(4711);
         m.mutable_resume()->set_session_secret(std::string(16, 'x'));
         m.mutable_resume()->set_lineage(1);
       },
       NdkStatus::kObjectNameNotFound, "session 4711: was in records that this broker has lost"},
  };
  for (const BadFirstMessage& row : rows) {
    v1::SessionRequest message;
    row.fill(message);
    const grpc::Status status = EndAfter(message);
    EXPECT_EQ(NdkStatusOf(status), row.status) << row.name << ": " << status.error_message();
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail) << row.name;
    EXPECT_EQ(detail->hint().find(row.hint), 0u) << row.name << ": " << detail->hint();
  }
  EXPECT_EQ(Opened()->Close(), NdkStatus::kSuccess);
}

TEST_F(SessionTest, SixtyFourUnknownFeaturesAreIgnored) {
  Start();
  auto stub = v1::Broker::NewStub(NewChannel(daemon_->target()));
  grpc::ClientContext context;
  Limit(context);
  auto stream = stub->Session(&context);
  v1::SessionRequest open;
  open.mutable_open()->set_api_minor(4711);
  for (int i = 0; i < 64; ++i) open.mutable_open()->add_features(std::string(63, 'x'));
  stream->Write(open);
  v1::SessionReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.opened().features_size(), 0);
  context.TryCancel();
}

TEST_F(SessionTest, AnOversizedMessageEndsItsStreamOnly) {
  Start();
  const auto client = Opened();
  v1::SessionRequest message;
  for (int i = 0; i < 70; ++i) message.mutable_open()->add_features(std::string(1000, 'x'));
  EXPECT_FALSE(EndAfter(message).ok());
  EXPECT_NE(client->OpenAdapter("fake1"), 0u);
}

TEST_F(SessionTest, AMessageOutOfPlaceEndsTheStreamButNotTheSession) {
  Start();
  using Fill = std::function<void(v1::SessionRequest&)>;
  for (const Fill& fill : {Fill([](auto&) {}), Fill([](auto& m) { m.mutable_open()->set_api_minor(1); }),
                           Fill([](auto& m) { m.mutable_acknowledge()->set_acknowledged_event(1); })}) {
    const auto client = Opened();
    const uint64_t adapter = client->OpenAdapter("fake1");
    v1::SessionRequest message;
    fill(message);
    client->Send(message);
    EXPECT_EQ(NdkStatusOf(client->WaitForEnd()), NdkStatus::kInvalidParameter);
    TestClient again(NewChannel(daemon_->target()));
    ASSERT_EQ(again.Resume(*client, 0), NdkStatus::kSuccess);
    EXPECT_EQ(again.session_id(), client->session_id());
    EXPECT_TRUE(again.opened().session_secret() == client->opened().session_secret());
    EXPECT_EQ(NdkStatusOf(again.CloseAdapter(adapter)), NdkStatus::kSuccess);
  }
}

TEST_F(SessionTest, ARequestThatMeetsTheStreamsEndIsRepeatedAfterTheReturn) {
  Start();
  const auto client = Opened();
  const uint64_t adapter = client->OpenAdapter("fake1");
  client->Send(v1::SessionRequest());
  EXPECT_EQ(NdkStatusOf(client->WaitForEnd()), NdkStatus::kInvalidParameter);
  v1::CreateListenerRequest request;
  request.set_adapter_id(adapter);
  request.mutable_header()->set_session_id(client->session_id());
  request.mutable_header()->set_request_id(client->next_request_id());
  grpc::ClientContext context;
  Limit(context);
  v1::Outcome outcome;
  const grpc::Status status = client->stub().CreateListener(&context, request, &outcome);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_FALSE(DetailOf(status)) << "an outcome would be final";
  TestClient again(client->channel());
  ASSERT_EQ(again.Resume(*client, 0), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(again.Ask(&Stub::CreateListener, request)), NdkStatus::kSuccess);
}

TEST_F(SessionTest, AnotherStreamOfTheSessionReplacesTheFirst) {
  Start();
  const auto client = Opened();
  const uint64_t adapter = client->OpenAdapter("fake1");
  TestClient again(NewChannel(daemon_->target()));
  ASSERT_EQ(again.Resume(*client, 0), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(client->WaitForEnd()), NdkStatus::kRequestAborted);
  // The session lives, on the other connection.
  v1::CreateListenerRequest request;
  request.set_adapter_id(adapter);
  EXPECT_EQ(NdkStatusOf(again.Ask(&Stub::CreateListener, request)), NdkStatus::kSuccess);
  request.mutable_header()->set_session_id(client->session_id());
  request.mutable_header()->set_request_id(100);
  EXPECT_EQ(NdkStatusOf(client->Ask(&Stub::CreateListener, request)), NdkStatus::kAccessDenied);
}

TEST_F(SessionTest, CannotBeReturnedToWithAnotherSecretOrByAnotherUser) {
  Start();
  const auto client = Opened();
  v1::SessionRequest resume;
  resume.mutable_resume()->set_api_minor(1);
  resume.mutable_resume()->set_session_id(client->session_id());
  std::string secret = client->opened().session_secret();
  secret[15] = static_cast<char>(secret[15] ^ 1);
  resume.mutable_resume()->set_session_secret(secret);
  EXPECT_EQ(NdkStatusOf(EndAfter(resume)), NdkStatus::kAccessDenied);
  EXPECT_NE(client->OpenAdapter("fake1"), 0u);
}

TEST_F(SessionTest, EventsAreNumberedKeptUntilAcknowledgedAndSentAgain) {
  Start();
  const auto client = Opened();
  const uint64_t adapter = client->OpenAdapter("fake1");
  for (int i = 0; i < 3; ++i) client->Listen(adapter, TestAddress(1));
  EXPECT_EQ(client->last_event(), 3u);
  const auto kept = [&](size_t count) {
    return daemon_->Eventually([&](const Records& records) {
      return records.sessions.at(SessionId(client->session_id())).events.size() == count;
    });
  };
  EXPECT_TRUE(kept(3));
  // On the stream.
  v1::SessionRequest message;
  message.mutable_acknowledge()->set_acknowledged_event(1);
  client->Send(message);
  EXPECT_TRUE(kept(2));
  // A lower number than before changes nothing.
  message.mutable_acknowledge()->set_acknowledged_event(0);
  client->Send(message);
  // By a request.
  v1::CreateListenerRequest request;
  request.set_adapter_id(adapter);
  request.mutable_header()->set_acknowledged_event(2);
  EXPECT_EQ(NdkStatusOf(client->Ask(&Stub::CreateListener, request)), NdkStatus::kSuccess);
  EXPECT_TRUE(kept(1));

  TestClient again(NewChannel(daemon_->target()));
  ASSERT_EQ(again.Resume(*client, 2), NdkStatus::kSuccess);
  EXPECT_EQ(again.WaitFor([](const auto&) { return true; }).number(), 3u);
  // What was acknowledged is forgotten.
  TestClient late(NewChannel(daemon_->target()));
  EXPECT_EQ(late.Resume(*client, 1), NdkStatus::kInvalidParameter);
  EXPECT_EQ(late.Resume(*client, 4), NdkStatus::kInvalidParameter);
  EXPECT_NE(again.CreateConnector(adapter), 0u);
}

TEST_F(SessionTest, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  Start();
  const auto client = Opened();
  v1::OpenAdapterRequest request;
  request.set_device("fake1");
  request.mutable_version()->set_major(2);
  request.mutable_header()->set_acknowledged_event(1);
  EXPECT_EQ(NdkStatusOf(client->Ask(&Stub::OpenAdapter, request)), NdkStatus::kInvalidParameter);
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.adapters.empty(); }));
}

TEST_F(SessionTest, MoreThanAUserMayHaveAreRefused) {
  Configuration configuration = TestConfiguration();
  configuration.limits.sessions_per_uid = 2;
  Start(configuration);
  const auto one = Opened();
  auto two = Opened();
  EXPECT_EQ(NewClient()->Open(), NdkStatus::kInsufficientResources);
  EXPECT_EQ(two->Close(), NdkStatus::kSuccess);
  EXPECT_TRUE(SessionIsGone(two->session_id()));
  EXPECT_EQ(NewClient()->Open(), NdkStatus::kSuccess);
}

TEST_F(SessionTest, ManyStreamsOfOneConnectionAreManySessions) {
  Start();
  const auto channel = NewChannel(daemon_->target());
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(channel));
    ASSERT_EQ(clients.back()->Open(), NdkStatus::kSuccess);
    EXPECT_NE(clients.back()->OpenAdapter("fake1"), 0u);
  }
  // One process, two sessions: an object is used from its own.
  v1::CloseAdapterRequest request;
  request.set_adapter_id(clients[0]->OpenAdapter("fake1"));
  EXPECT_EQ(NdkStatusOf(clients[1]->Ask(&Stub::CloseAdapter, request)), NdkStatus::kAccessDenied);
  clients.clear();
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.sessions.empty(); }));
}

TEST_F(SessionTest, AStreamOnWhichNobodySaysWhoItIsEnds) {
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Milliseconds(50);
  Start(configuration);
  auto stub = v1::Broker::NewStub(NewChannel(daemon_->target()));
  grpc::ClientContext context;
  Limit(context);
  auto stream = stub->Session(&context);
  v1::SessionReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(NdkStatusOf(status), NdkStatus::kInvalidParameter) << status.error_message();
}

TEST_F(SessionTest, AConnectionOnWhichNobodySaysAnythingEnds) {
  Configuration configuration = TestConfiguration();
  // Enough for a client that does say something, on a busy machine too.
  configuration.patience = absl::Seconds(2);
  Start(configuration);
  const UniqueFd silent = ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM);
  ASSERT_TRUE(silent);
  char bytes[256];
  // HTTP/2's greeting, then the end.
  ssize_t length = 1;
  while (length > 0) length = ::read(silent.get(), bytes, sizeof bytes);
  EXPECT_EQ(length, 0);
  // A session that is open and has nothing to say is left alone.
  const auto client = Opened();
  bool still_open = false;
  daemon_->OnLoop([](const Broker&) {});
  const absl::Time end = absl::Now() + configuration.patience * 1.5;
  EXPECT_TRUE(Becomes([&] { return absl::Now() > end; }));
  daemon_->OnLoop([&](const Broker& broker) {
    still_open = static_cast<bool>(broker.core().records().sessions.at(SessionId(client->session_id())).stream);
  });
  EXPECT_TRUE(still_open);
}

TEST_F(SessionTest, MoreConnectionsThanAUserMayHaveAreClosed) {
  Configuration configuration = TestConfiguration();
  configuration.connections_per_uid = 2;
  Start(configuration);
  const auto one = Opened();
  auto two = Opened();
  const UniqueFd third = ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM);
  char byte = 0;
  EXPECT_EQ(::read(third.get(), &byte, 1), 0);
  EXPECT_NE(one->OpenAdapter("fake1"), 0u);
  two.reset();
  // Room again, as soon as the broker has seen the end of the second.
  EXPECT_TRUE(Becomes([&] { return NewClient()->Open() == NdkStatus::kSuccess; }));
}

}  // namespace
}  // namespace rdmabroker
