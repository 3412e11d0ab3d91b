// SPDX-License-Identifier: Apache-2.0

// Inspection and administration from off the node: who is let in over TCP, who may do what there, and what becomes of
// the certificates.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/presented_chain.h"
#include "broker/control/server_certificates.h"
#include "broker/control/tcp_port.h"
#include "broker/policy/policy.h"
#include "dataplane/unique_fd.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/captured_log.h"
#include "tests/control/child_process.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/patience.h"
#include "tests/control/scrape.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using google::protobuf::MethodDescriptor;
using grpc::health::v1::Health;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kInspector[] = "spiffe://example.org/inspector";
constexpr char kAdministrator[] = "spiffe://example.org/administrator";
constexpr char kBroker[] = "spiffe://example.org/broker";

// Every method of every service that there may be on the port.
std::vector<const MethodDescriptor*> Methods() {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  std::vector<const MethodDescriptor*> methods;
  for (const char* name : {v1::Administration::service_full_name(), v1::Broker::service_full_name(),
                           v1::Inspection::service_full_name(), Health::service_full_name()}) {
    const auto* service = pool->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) methods.push_back(service->method(i));
    EXPECT_NE(service, nullptr) << name;
  }
  return methods;
}

// Calls the method with an empty request; it answers once or, whether it is a stream or not, refuses.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const MethodDescriptor& method,
                  grpc::ByteBuffer* reply) {
  const std::string path = absl::StrCat("/", method.service()->full_name(), "/", method.name());
  const grpc::Slice empty;
  grpc::ClientContext context;
  Limit(context);
  grpc::CompletionQueue queue;
  const auto call = grpc::GenericStub(channel).PrepareUnaryCall(&context, path, grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}
grpc::Status Refusal(const std::shared_ptr<grpc::Channel>& channel, const MethodDescriptor& method) {
  grpc::ByteBuffer none;
  return Call(channel, method, &none);
}
std::string AnswerInText(const std::shared_ptr<grpc::Channel>& channel, const MethodDescriptor& method) {
  grpc::ByteBuffer reply;
  const grpc::Status status = Call(channel, method, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.output_type());
  const std::unique_ptr<google::protobuf::Message> message(prototype->New());
  grpc::ProtoBufferReader reader(&reply);
  EXPECT_TRUE(message->ParseFromZeroCopyStream(&reader));
  return message->DebugString();
}

// The files of a broker's certificates.
class BrokerFiles {
 public:
  void Write(const TestPair& pair, const std::string& authorities) {
    // A look in between sees a key with another's certificate, but no half of one.
    Replace("cert.pem", pair.certificate);
    Replace("key.pem", pair.private_key);
    Replace("ca.pem", authorities);
  }
  // As Kubernetes mounts a secret: those in `version` take the place of all three at once, by a link that is renamed.
  void Mount(const std::string& version, const TestPair& pair, const std::string& authorities) {
    std::filesystem::create_directory(path(version));
    std::ofstream(path(version + "/cert.pem")) << pair.certificate;
    std::ofstream(path(version + "/key.pem")) << pair.private_key;
    std::ofstream(path(version + "/ca.pem")) << authorities;
    std::filesystem::create_directory_symlink(version, path("..data_tmp"));
    std::filesystem::rename(path("..data_tmp"), path("..data"));
    for (const char* name : {"cert.pem", "key.pem", "ca.pem"}) {
      if (std::filesystem::is_symlink(path(name))) continue;
      std::filesystem::create_symlink(absl::StrCat("..data/", name), path(name));
    }
  }
  void Replace(const std::string& name, const std::string& text) {
    std::ofstream(path(name + ".new")) << text;
    std::filesystem::rename(path(name + ".new"), path(name));
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  const TemporaryFolder folder_;
};

class RemoteTest : public testing::Test {
 protected:
  RemoteTest() {
    files_.Write(OfBroker(), authority_.certificate());
    configuration_.tcp_address = "127.0.0.1:0";
    NameFilesOf(files_);
    configuration_.tcp_inspectors = {kInspector};
    configuration_.tcp_administrators = {kAdministrator};
    // Tests ask again and again with new connections until something is so.
    Start({.connections = 4096, .of_host = 4096});
  }
  void NameFilesOf(const BrokerFiles& files) {
    configuration_.tcp_certificate = files.path("cert.pem");
    configuration_.tcp_private_key = files.path("key.pem");
    configuration_.tcp_client_authorities = files.path("ca.pem");
  }
  void Start(const TcpBounds& bounds) {
    daemon_.reset();
    const std::vector<FakeDevice> devices = {TestDevice(1), TestDevice(2)};
    daemon_ = std::make_unique<TestDaemon>(network_, devices, configuration_, bounds);
  }

  // Gives the metrics' address.
  std::string StartWithMetrics() {
    configuration_.metrics_address = "127.0.0.1:0";
    Start({});
    const std::string served = log_.LinesWith("metrics served").at(0);
    return served.substr(served.find('=') + 1);
  }

  TestPair OfBroker() const { return authority_.Sign({.uris = {kBroker}, .addresses = {"127.0.0.1"}}); }
  TestPair Of(const std::vector<std::string>& uris) const { return authority_.Sign({.uris = uris}); }

  std::shared_ptr<grpc::Channel> Connect(const TestPair& pair) const { return Connect(pair, authority_); }
  std::shared_ptr<grpc::Channel> Connect(const TestPair& pair, const TestAuthority& believed) const {
    return TlsChannel(daemon_->tcp_address(), believed.certificate(), pair.certificate, pair.private_key);
  }
  std::shared_ptr<grpc::Channel> ConnectAs(const char* id) const { return Connect(Of({id})); }

  static grpc::Status ListSessions(const std::shared_ptr<grpc::Channel>& channel, int* sessions = nullptr) {
    grpc::ClientContext context;
    Limit(context);
    v1::ListSessionsReply reply;
    grpc::Status status = v1::Inspection::NewStub(channel)->ListSessions(&context, {}, &reply);
    if (sessions != nullptr) *sessions = reply.sessions_size();
    return status;
  }
  static grpc::Status ListAdapters(const std::shared_ptr<grpc::Channel>& channel,
                                   std::vector<std::string>* names = nullptr) {
    grpc::ClientContext context;
    Limit(context);
    v1::ListAdaptersReply reply;
    grpc::Status status = v1::Inspection::NewStub(channel)->ListAdapters(&context, {}, &reply);
    for (const v1::Device& device : reply.devices()) {
      if (names != nullptr) names->push_back(device.name());
    }
    return status;
  }
  std::vector<std::string> AdaptersSeenBy(const char* id) const {
    std::vector<std::string> names;
    EXPECT_TRUE(ListAdapters(ConnectAs(id), &names).ok());
    return names;
  }
  static grpc::Status EndSession(const std::shared_ptr<grpc::Channel>& channel, uint64_t id) {
    grpc::ClientContext context;
    Limit(context);
    v1::EndSessionRequest request;
    request.set_session_id(id);
    v1::EndSessionReply reply;
    return v1::Administration::NewStub(channel)->EndSession(&context, request, &reply);
  }
  static grpc::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    Limit(context);
    grpc::health::v1::HealthCheckResponse reply;
    return Health::NewStub(channel)->Check(&context, {}, &reply);
  }
  static grpc::Status WatchHealth(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    Limit(context);
    auto stream = Health::NewStub(channel)->Watch(&context, {});
    grpc::health::v1::HealthCheckResponse reply;
    if (stream->Read(&reply)) context.TryCancel();
    return stream->Finish();
  }
  // The client's end of a connection that sends nothing.
  UniqueFd ConnectSilently(const char* host) const { return ConnectFrom(host, daemon_->tcp_address()); }
  // Whether it has ended, within the patience.
  static bool Ends(const std::shared_ptr<grpc::Channel>& channel) {
    return channel->WaitForStateChange(GRPC_CHANNEL_READY,
                                       std::chrono::system_clock::now() + absl::ToChronoSeconds(kTestPatience));
  }
  void ExpectLoggedRefusal(const std::string& of) {
    const std::string line = absl::StrCat("policy decision decision=refused action=", of);
    EXPECT_EQ(log_.LinesWith(line).size(), 1u) << line;
  }
  // So that the next call makes a connection of its own, with another handshake.
  bool IsLetIn(const TestPair& pair) const { return ListSessions(Connect(pair)).ok(); }

  CapturedLog log_;
  NetworkThread network_;
  const TestAuthority authority_{"authority"};
  BrokerFiles files_;
  Configuration configuration_ = TestConfiguration();
  std::unique_ptr<TestDaemon> daemon_;
};

TEST_F(RemoteTest, AnInspectorSeesEveryUsersSessionsAndChangesNothing) {
  TestClient client(NewChannel(daemon_->target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const auto channel = ConnectAs(kInspector);
  int sessions = 0;
  const grpc::Status listed = ListSessions(channel, &sessions);
  EXPECT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_EQ(sessions, 1);
  EXPECT_TRUE(ListAdapters(channel).ok());
  EXPECT_TRUE(CheckHealth(channel).ok());
  EXPECT_EQ(WatchHealth(channel).error_code(), grpc::StatusCode::CANCELLED) << "it was told, and went";
  EXPECT_EQ(NdkStatusOf(EndSession(channel, client.session_id())), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(EndSession(channel, 4711)), NdkStatus::kAccessDenied) << "nor learns which there are";
  EXPECT_NE(client.OpenAdapter("fake1"), 0u);
}

TEST_F(RemoteTest, AnAdministratorInspectsAndAdministers) {
  TestClient client(NewChannel(daemon_->target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const auto channel = ConnectAs(kAdministrator);
  int sessions = 0;
  EXPECT_TRUE(ListSessions(channel, &sessions).ok());
  EXPECT_EQ(sessions, 1);
  EXPECT_TRUE(EndSession(channel, client.session_id()).ok());
  EXPECT_EQ(NdkStatusOf(client.WaitForEnd()), NdkStatus::kRequestAborted);
}

TEST_F(RemoteTest, AnInspectorSeesTheAdaptersThatRulesLetHimSee) {
  EXPECT_THAT(AdaptersSeenBy(kInspector), ElementsAre("fake1", "fake2"));
  daemon_->ReplacePolicy(
      {.allow_by_default = false, .rules = {{.name = "half", .spiffe_ids = {kInspector}, .adapters = {"fake2"}}}});
  EXPECT_THAT(AdaptersSeenBy(kInspector), ElementsAre("fake2"));
  EXPECT_THAT(AdaptersSeenBy(kAdministrator), ElementsAre("fake1", "fake2"));
}

// Of everything that a session has there is one on each adapter.
TEST_F(RemoteTest, NothingIsThereForAnInspectorOnAnAdapterThatRulesHide) {
  TestClient client(NewChannel(daemon_->target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  std::vector<uint64_t> connectors;
  for (const uint64_t id : {1, 2}) {
    const uint64_t adapter = client.OpenAdapter(absl::StrCat("fake", id));
    client.Listen(adapter, TestAddress(id));
    connectors.push_back(client.CreateConnector(adapter));
    v1::CreateSharedEndpointRequest share;
    share.set_adapter_id(adapter);
    *share.mutable_address() = ToMessage(TestAddress(id));
    EXPECT_EQ(NdkStatusOf(client.Finish(&v1::Broker::Stub::CreateSharedEndpoint, share)), NdkStatus::kSuccess);
    v1::ReservePortRequest reserve;
    reserve.set_adapter_id(adapter);
    *reserve.mutable_address() = ToMessage(TestAddress(id));
    EXPECT_EQ(NdkStatusOf(client.Finish(&v1::Broker::Stub::ReservePort, reserve)), NdkStatus::kSuccess);
  }
  daemon_->ReplacePolicy(
      {.allow_by_default = false, .rules = {{.name = "half", .spiffe_ids = {kInspector}, .adapters = {"fake2"}}}});
  const auto inspector = ConnectAs(kInspector);
  const auto administrator = ConnectAs(kAdministrator);
  size_t lists = 0;
  for (const MethodDescriptor* method : Methods()) {
    if (method->service()->name() != "Inspection" || !absl::StartsWith(method->name(), "List")) continue;
    // Which is on no adapter.
    if (method->name() == "ListSessions") continue;
    SCOPED_TRACE(method->name());
    ++lists;
    EXPECT_THAT(AnswerInText(administrator, *method), AllOf(HasSubstr("fake1"), HasSubstr("fake2")));
    EXPECT_THAT(AnswerInText(inspector, *method), AllOf(Not(HasSubstr("fake1")), HasSubstr("fake2")));
  }
  EXPECT_GE(lists, 6u);
  const auto explain = [&](uint64_t connector) {
    grpc::ClientContext context;
    Limit(context);
    v1::ExplainConnectorRequest request;
    request.set_connector_id(connector);
    v1::ExplainConnectorReply reply;
    return v1::Inspection::NewStub(inspector)->ExplainConnector(&context, request, &reply);
  };
  EXPECT_EQ(NdkStatusOf(explain(connectors[0])), NdkStatus::kObjectNameNotFound);
  EXPECT_TRUE(explain(connectors[1]).ok());
}

TEST_F(RemoteTest, SessionsAreRefusedOverTcpWhoeverAsks) {
  const std::string metrics = StartWithMetrics();
  for (const char* id : {kInspector, kAdministrator}) {
    const auto channel = ConnectAs(id);
    grpc::ClientContext context;
    Limit(context);
    const grpc::Status refused = v1::Broker::NewStub(channel)->Session(&context)->Finish();
    EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kAccessDenied);
    EXPECT_THAT(refused.error_message(), HasSubstr("control socket of the broker's node"));
    ExpectLoggedRefusal(absl::StrCat("Session rule=tcp spiffe_id=", id, " peer=127.0.0.1 left_out=0"));
    TestClient client(channel);
    EXPECT_EQ(client.Open(), NdkStatus::kAccessDenied);
    v1::OpenAdapterRequest request;
    request.mutable_header()->set_session_id(1);
    EXPECT_EQ(NdkStatusOf(client.Ask(&v1::Broker::Stub::OpenAdapter, request)), NdkStatus::kAccessDenied);
  }
  EXPECT_EQ(Scrape(metrics).at("rdma_broker_sessions_refused_total{status=\"STATUS_ACCESS_DENIED\"}"), 4);
}

struct Stranger {
  const char* what;
  std::vector<std::string> uris;
  const char* hint;
};

// The same words for what there is and what there is not.
TEST_F(RemoteTest, WhoIsNotNamedLearnsNothing) {
  TestClient client(NewChannel(daemon_->target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const Stranger rows[] = {
      {"another id", {"spiffe://example.org/somebody"}, "caller: spiffe://example.org/somebody may do nothing here"},
      {"the broker itself", {kBroker}, "may do nothing here"},
      {"no id", {}, "caller: the certificate has 0 URI names; one is needed, a SPIFFE id"},
      {"two ids", {kInspector, kAdministrator}, "caller: the certificate has 2 URI names"},
      {"an id and another URI", {kInspector, "https://example.org/"}, "caller: the certificate has 2 URI names"},
      {"another URI", {"https://example.org/inspector"}, "caller: the certificate's URI name is no SPIFFE id"},
      {"a trust domain", {"spiffe://example.org"}, "caller: the certificate's URI name is no SPIFFE id"},
  };
  for (const Stranger& row : rows) {
    SCOPED_TRACE(row.what);
    const auto channel = Connect(Of(row.uris));
    std::vector<grpc::Status> answers = {EndSession(channel, client.session_id()), EndSession(channel, 4711)};
    for (const MethodDescriptor* method : Methods()) answers.push_back(Refusal(channel, *method));
    for (const grpc::Status& answer : answers) {
      EXPECT_EQ(answer.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      EXPECT_EQ(NdkStatusOf(answer), NdkStatus::kAccessDenied);
      EXPECT_THAT(answer.error_message(), HasSubstr(row.hint));
      EXPECT_EQ(answer.error_message(), answers[0].error_message());
    }
  }
}

TEST_F(RemoteTest, WhoShowsNoGoodCertificateIsNotLetIn) {
  const TestAuthority strangers("strangers");
  const TestAuthority impostor("authority");
  const TestCertificate inspector = {.uris = {kInspector}};
  EXPECT_TRUE(IsLetIn(authority_.Sign(inspector)));
  EXPECT_FALSE(IsLetIn({})) << "none";
  EXPECT_FALSE(IsLetIn(strangers.Sign(inspector))) << "of an authority that is not believed";
  EXPECT_FALSE(IsLetIn(impostor.Sign(inspector))) << "of one that has the name of one that is";
  EXPECT_FALSE(IsLetIn(authority_.Sign({.uris = {kInspector}, .not_before = -7200, .not_after = -60}))) << "expired";
  EXPECT_FALSE(IsLetIn(authority_.Sign({.uris = {kInspector}, .not_before = 3600, .not_after = 7200}))) << "early";
  const auto plain = grpc::CreateChannel(daemon_->tcp_address(), grpc::InsecureChannelCredentials());
  EXPECT_EQ(ListSessions(plain).error_code(), grpc::StatusCode::UNAVAILABLE) << "without TLS";
  EXPECT_TRUE(IsLetIn(authority_.Sign(inspector))) << "and others are still";
}

struct FreeTls {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  void operator()(SSL* connection) const { ::SSL_free(connection); }
};

TEST_F(RemoteTest, NoTlsBeforeVersion12IsSpoken) {
  const TestPair pair = Of({kInspector});
  std::ofstream(files_.path("client.pem")) << pair.certificate << pair.private_key;
  const std::string file = files_.path("client.pem");
  // The version that a client gets who speaks none above `most`; "" where he is refused.
  const auto version_for = [&](int most) -> std::string {
    const std::unique_ptr<SSL_CTX, FreeTls> context(::SSL_CTX_new(::TLS_client_method()));
    // OpenSSL speaks the old ones at its lowest level only.
    ::SSL_CTX_set_security_level(context.get(), 0);
    EXPECT_EQ(::SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION), 1);
    EXPECT_EQ(::SSL_CTX_set_max_proto_version(context.get(), most), 1);
    EXPECT_EQ(::SSL_CTX_use_certificate_file(context.get(), file.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(::SSL_CTX_use_PrivateKey_file(context.get(), file.c_str(), SSL_FILETYPE_PEM), 1);
    const UniqueFd socket = ConnectByTcp(daemon_->tcp_address());
    const std::unique_ptr<SSL, FreeTls> connection(::SSL_new(context.get()));
    EXPECT_EQ(::SSL_set_fd(connection.get(), socket.get()), 1);
    const bool let_in = ::SSL_connect(connection.get()) == 1;
    EXPECT_GT(::BIO_number_written(::SSL_get_wbio(connection.get())), 0u) << "it has asked";
    return let_in ? ::SSL_get_version(connection.get()) : "";
  };
  EXPECT_EQ(version_for(TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(version_for(TLS1_2_VERSION), "TLSv1.2");
  EXPECT_EQ(version_for(TLS1_1_VERSION), "");
  EXPECT_EQ(version_for(TLS1_VERSION), "");
}

TEST_F(RemoteTest, AnAuthorityThatHasExpiredIsNotBelieved) {
  const TestAuthority expired("expired", -60);
  const TestPair pair = expired.Sign({.uris = {kInspector}});
  files_.Write(OfBroker(), authority_.certificate() + expired.certificate());
  EXPECT_TRUE(Becomes([&] { return !log_.LinesWith("certificates replaced").empty(); }));
  EXPECT_FALSE(IsLetIn(pair));
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
}

TEST_F(RemoteTest, CertificatesAreReadAgainAsTheyChange) {
  const auto before = ConnectAs(kInspector);
  EXPECT_TRUE(ListSessions(before).ok());
  const TestAuthority next("next");
  const TestPair of_next = next.Sign({.uris = {kInspector}});
  EXPECT_FALSE(IsLetIn(of_next));
  files_.Write(next.Sign({.uris = {kBroker}, .addresses = {"127.0.0.1"}}), next.certificate());
  EXPECT_TRUE(Becomes([&] { return ListSessions(Connect(of_next, next)).ok(); }));
  EXPECT_FALSE(IsLetIn(Of({kInspector}))) << "its authority has gone";
  EXPECT_TRUE(Becomes([&] { return !ListSessions(before).ok(); })) << "and the connections that it had let in";
}

TEST_F(RemoteTest, CertificatesBehindALinkThatIsRenamedAreReadAgain) {
  BrokerFiles secret;
  secret.Mount("..first", OfBroker(), authority_.certificate());
  NameFilesOf(secret);
  Start({.connections = 4096, .of_host = 4096});
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
  const TestAuthority next("next");
  const TestPair of_next = next.Sign({.uris = {kInspector}});
  secret.Mount("..second", next.Sign({.uris = {kBroker}, .addresses = {"127.0.0.1"}}), next.certificate());
  EXPECT_TRUE(Becomes([&] { return ListSessions(Connect(of_next, next)).ok(); }));
  EXPECT_FALSE(IsLetIn(Of({kInspector}))) << "its authority has gone";
  EXPECT_EQ(log_.LinesWith("certificates not replaced").size(), 0u);
}

TEST_F(RemoteTest, APairThatDoesNotFitLeavesTheOldOneInUse) {
  const TestPair good = OfBroker();
  files_.Write({good.certificate, OfBroker().private_key}, authority_.certificate());
  EXPECT_TRUE(Becomes([&] { return !log_.LinesWith("certificates not replaced").empty(); }));
  EXPECT_THAT(log_.LinesWith("certificates not replaced").front(),
              HasSubstr(files_.path("key.pem") + ": is not the key of the first certificate in tcp.certificate"));
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
  files_.Write(good, authority_.certificate());
  EXPECT_TRUE(Becomes([&] { return !log_.LinesWith("certificates replaced").empty(); }));
  EXPECT_EQ(log_.LinesWith("is not the key of").size(), 1u);
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
}

// gRPC would go on with the former authority, too, and say nothing.
TEST_F(RemoteTest, APairThatTlsRefusesLeavesTheOldOneInUseWithItsAuthority) {
  const auto before = ConnectAs(kInspector);
  EXPECT_TRUE(ListSessions(before).ok());
  const TestAuthority next("next");
  const TestPair of_next = next.Sign({.uris = {kInspector}});
  TestCertificate of_broker = {.uris = {kBroker}, .addresses = {"127.0.0.1"}};
  const std::pair<TestStrength, const char*> rows[] = {
      {TestStrength::kShortKey, "TLS refuses its certificate 1: ee key too small; have that issued with"},
      {TestStrength::kWeakSignature, "TLS refuses its certificate 1: ca md too weak; have that issued with"},
  };
  for (const auto& [strength, complaint] : rows) {
    SCOPED_TRACE(complaint);
    of_broker.strength = strength;
    files_.Write(next.Sign(of_broker), next.certificate());
    const std::string cause = files_.path("cert.pem: ") + complaint;
    ASSERT_TRUE(Becomes([&] { return !log_.LinesWith(cause).empty(); }));
    EXPECT_TRUE(IsLetIn(Of({kInspector})));
    EXPECT_FALSE(IsLetIn(of_next));
  }
  EXPECT_TRUE(ListSessions(before).ok());
  EXPECT_EQ(log_.LinesWith("certificates replaced").size(), 0u);
  of_broker.strength = TestStrength::kGood;
  files_.Write(next.Sign(of_broker), next.certificate());
  EXPECT_TRUE(Becomes([&] { return ListSessions(Connect(of_next, next)).ok(); }));
  EXPECT_FALSE(ListSessions(Connect(Of({kInspector}), next)).ok()) << "its authority has gone";
}

TEST_F(RemoteTest, ChangedListsHoldAtOnceForWhoIsConnectedToo) {
  const auto inspector = ConnectAs(kInspector);
  EXPECT_TRUE(ListSessions(inspector).ok());
  LoadedConfiguration loaded;
  loaded.configuration = configuration_;
  loaded.configuration.tcp_inspectors = {};
  loaded.configuration.tcp_administrators = {kInspector};
  loaded.certificates = *ReadServerCertificates(CertificateFilesOf(configuration_), absl::Now());
  daemon_->Apply(loaded);
  EXPECT_TRUE(Becomes([&] { return NdkStatusOf(EndSession(inspector, 4711)) == NdkStatus::kObjectNameNotFound; }));
  EXPECT_EQ(NdkStatusOf(ListSessions(ConnectAs(kAdministrator))), NdkStatus::kAccessDenied);
}

TEST_F(RemoteTest, AStreamEndsWhoseCallerIsNamedNoMore) {
  grpc::ClientContext context;
  Limit(context);
  auto stream = Health::NewStub(ConnectAs(kInspector))->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  LoadedConfiguration loaded;
  loaded.configuration = configuration_;
  loaded.configuration.tcp_inspectors = {};
  loaded.certificates = *ReadServerCertificates(CertificateFilesOf(configuration_), absl::Now());
  daemon_->Apply(loaded);
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RemoteTest, OtherFilesAreUsedWhenTheConfigurationNamesThem) {
  const TestAuthority next("next");
  BrokerFiles others;
  others.Write(next.Sign({.addresses = {"127.0.0.1"}}), next.certificate());
  LoadedConfiguration loaded;
  loaded.configuration = configuration_;
  loaded.configuration.tcp_certificate = others.path("cert.pem");
  loaded.configuration.tcp_private_key = others.path("key.pem");
  loaded.configuration.tcp_client_authorities = others.path("ca.pem");
  loaded.certificates = *ReadServerCertificates(CertificateFilesOf(loaded.configuration), absl::Now());
  daemon_->Apply(loaded);
  EXPECT_TRUE(ListSessions(Connect(next.Sign({.uris = {kInspector}}), next)).ok());
  // And those are read again from now on.
  const TestAuthority last("last");
  others.Write(last.Sign({.addresses = {"127.0.0.1"}}), last.certificate());
  EXPECT_TRUE(Becomes([&] { return ListSessions(Connect(last.Sign({.uris = {kInspector}}), last)).ok(); }));
}

TEST_F(RemoteTest, APortThatIsInUseIsNamedWithItsKey) {
  Configuration second = configuration_;
  second.tcp_address = daemon_->tcp_address();
  const absl::Status status = OpenTcpPort(second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("tcp.address: " + daemon_->tcp_address() +
                         ": cannot be listened on: Address already in use; name another port"));
  second.tcp_address = "192.0.2.1:0";
  EXPECT_THAT(std::string(OpenTcpPort(second).status().message()),
              StartsWith("tcp.address: 192.0.2.1:0: cannot be listened on: Cannot assign requested address"));
}

TEST_F(RemoteTest, WhoSaysNothingKeepsNoAdministratorOut) {
  Start({});
  std::vector<UniqueFd> open;
  while (open.size() < TcpBounds().connections) open.push_back(ConnectSilently("127.0.0.2"));
  EXPECT_TRUE(IsLetIn(Of({kAdministrator})));
  EXPECT_FALSE(log_.LinesWith("connection over tcp refused peer=127.0.0.2").empty());
}

TEST_F(RemoteTest, WhoIsNotNamedKeepsNoConnection) {
  Start({.patience = absl::Seconds(8)});
  const auto inspector = ConnectAs(kInspector);
  ASSERT_TRUE(ListSessions(inspector).ok());
  const auto stranger = ConnectAs("spiffe://example.org/somebody");
  ASSERT_EQ(NdkStatusOf(ListSessions(stranger)), NdkStatus::kAccessDenied);
  EXPECT_TRUE(Ends(stranger));
  // It is the elder.
  EXPECT_EQ(inspector->GetState(false), GRPC_CHANNEL_READY);
}

TEST_F(RemoteTest, WhoIsNotNamedIsLogged) {
  for (const MethodDescriptor* method : Methods()) {
    const bool of_health = method->service()->full_name() == Health::service_full_name();
    const std::string action = (of_health ? "Health" : "") + method->name();
    // Each has a second of its own.
    const std::string id = "spiffe://example.org/stranger/" + action;
    EXPECT_FALSE(Refusal(ConnectAs(id.c_str()), *method).ok());
    ExpectLoggedRefusal(absl::StrCat(action, " rule=tcp spiffe_id=", id, " peer=127.0.0.1 left_out=0"));
  }
  EXPECT_FALSE(CheckHealth(Connect(Of({}))).ok());
  ExpectLoggedRefusal("HealthCheck rule=tcp peer=127.0.0.1");
}

// The others say nothing of what users do, or are refused to whoever is no administrator.
TEST_F(RemoteTest, WhatIsSeenFromOffTheNodeIsLoggedWhereAllDecisionsAre) {
  configuration_.audit = AuditLevel::kAll;
  Start({.connections = 4096, .of_host = 4096});
  const auto let_in = [](const std::string& action, const char* id) {
    return absl::StrCat("policy decision decision=allowed action=", action, " rule=tcp spiffe_id=", id,
                        " peer=127.0.0.1 left_out=0");
  };
  size_t looks = 0;
  for (const char* id : {kInspector, kAdministrator}) {
    const auto channel = ConnectAs(id);
    for (const MethodDescriptor* method : Methods()) {
      if (method->service()->full_name() != v1::Inspection::service_full_name()) continue;
      ++looks;
      if (!method->server_streaming()) {
        (void)Refusal(channel, *method);
      } else {
        ASSERT_EQ(method->name(), "Watch");
        grpc::ClientContext context;
        Limit(context);
        const auto stream = v1::Inspection::NewStub(channel)->Watch(&context, v1::WatchRequest());
        v1::WatchReply reply;
        EXPECT_TRUE(stream->Read(&reply));
        context.TryCancel();
        (void)stream->Finish();
      }
      EXPECT_EQ(log_.LinesWith(let_in(method->name(), id)).size(), 1u) << method->name();
    }
    EXPECT_TRUE(CheckHealth(channel).ok());
  }
  EXPECT_GE(looks, 18u);
  EXPECT_EQ(log_.LinesWith("decision=allowed").size(), looks);
}

// Each has a second of its own. An empty request lacks what some of them need.
TEST_F(RemoteTest, WhoMayNotAdministerIsToldSoAndLoggedWhateverHeAsks) {
  const std::string id = "spiffe://example.org/inspector/";
  std::vector<const MethodDescriptor*> methods;
  for (const MethodDescriptor* method : Methods()) {
    if (method->service()->full_name() != v1::Administration::service_full_name()) continue;
    methods.push_back(method);
    configuration_.tcp_inspectors.push_back(id + method->name());
  }
  configuration_.tcp_inspectors.push_back(id + "device");
  configuration_.tcp_inspectors.push_back(id + "level");
  Start({.connections = 4096, .of_host = 4096});
  for (const MethodDescriptor* method : methods) {
    const std::string who = id + method->name();
    EXPECT_EQ(NdkStatusOf(Refusal(ConnectAs(who.c_str()), *method)), NdkStatus::kAccessDenied) << method->name();
    ExpectLoggedRefusal(absl::StrCat(method->name(), " rule=administrators spiffe_id=", who, " left_out=0"));
  }
  EXPECT_GE(methods.size(), 6u);
  grpc::ClientContext of_device;
  Limit(of_device);
  v1::DisableAdapterRequest disable;
  disable.set_device(std::string(64, 'a'));
  v1::DisableAdapterReply disabled;
  const auto device = v1::Administration::NewStub(ConnectAs((id + "device").c_str()));
  EXPECT_EQ(NdkStatusOf(device->DisableAdapter(&of_device, disable, &disabled)), NdkStatus::kAccessDenied);
  ExpectLoggedRefusal(absl::StrCat("DisableAdapter rule=administrators spiffe_id=", id,
                                   "device adapter=", std::string(63, 'a'), " left_out=0"));
  grpc::ClientContext of_level;
  Limit(of_level);
  v1::SetLogLevelRequest set;
  set.set_level("loud");
  v1::SetLogLevelReply shown;
  const auto level = v1::Administration::NewStub(ConnectAs((id + "level").c_str()));
  EXPECT_EQ(NdkStatusOf(level->SetLogLevel(&of_level, set, &shown)), NdkStatus::kAccessDenied);
  ExpectLoggedRefusal(absl::StrCat("SetLogLevel rule=administrators spiffe_id=", id, "level left_out=0"));
}

TEST_F(RemoteTest, WhoIsNotNamedIsCounted) {
  const std::string metrics = StartWithMetrics();
  const auto stranger = ConnectAs("spiffe://example.org/somebody");
  for (const MethodDescriptor* method : Methods()) EXPECT_FALSE(Refusal(stranger, *method).ok());
  EXPECT_EQ(Scrape(metrics).at("rdma_broker_callers_refused_total{reason=\"not_named\"}"), Methods().size());
}

TEST_F(RemoteTest, ACertificateThatExpiresEndsWithItsTime) {
  const TestPair brief = authority_.Sign({.uris = {kInspector}, .not_after = 10});
  const auto channel = Connect(brief);
  grpc::ClientContext context;
  Limit(context);
  auto stream = Health::NewStub(channel)->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE) << "before its patience had ended";
  // The time of day may be slewed meanwhile.
  EXPECT_GE(absl::Now(), ChainOf(brief.certificate).End() - absl::Milliseconds(100));
  EXPECT_FALSE(ListSessions(channel).ok());
}

class RevocationTest : public RemoteTest {
 protected:
  RevocationTest() {
    Revoke({});
    configuration_.tcp_revoked = files_.path("crl.pem");
    Start({.connections = 4096, .of_host = 4096});
  }
  void Revoke(const TestRevocations& wanted) { files_.Replace("crl.pem", authority_.Revoke(wanted)); }
  static bool IsRevoked(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAUTHENTICATED &&
           absl::StrContains(status.error_message(), "revoked by a list in tcp.revoked");
  }
};

TEST_F(RevocationTest, ARevokedClientIsRefusedAtEachCallAndItsStreamEnds) {
  const std::string metrics = StartWithMetrics();
  const TestPair pair = Of({kAdministrator});
  const auto channel = Connect(pair);
  const auto other = ConnectAs(kInspector);
  ASSERT_TRUE(ListSessions(other).ok());
  grpc::ClientContext context;
  Limit(context);
  auto stream = Health::NewStub(channel)->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  Revoke({.certificates = {pair.certificate}});
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE) << "before its patience had ended";
  EXPECT_EQ(log_.LinesWith("revocation lists replaced").size(), 1u);
  for (const MethodDescriptor* method : Methods()) {
    const grpc::Status refused = Refusal(channel, *method);
    EXPECT_TRUE(IsRevoked(refused)) << method->name() << ": " << refused.error_message();
    EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kAccessDenied);
  }
  EXPECT_TRUE(IsRevoked(ListSessions(Connect(pair)))) << "with a handshake of its own, too";
  EXPECT_TRUE(ListSessions(other).ok());
  EXPECT_EQ(other->GetState(false), GRPC_CHANNEL_READY) << "its connection has not ended";
  EXPECT_THAT(
      log_.LinesWith("policy decision decision=refused action="),
      testing::Contains(HasSubstr(absl::StrCat("rule=tcp.revoked spiffe_id=", kAdministrator, " peer=127.0.0.1"))));
  EXPECT_EQ(Scrape(metrics).at("rdma_broker_callers_refused_total{reason=\"revoked\"}"), Methods().size() + 1);
  // Who is taken off the list may come again.
  Revoke({});
  EXPECT_TRUE(Becomes([&] { return ListSessions(channel).ok(); }));
}

// It presents its issuer's certificate, as it has to.
TEST_F(RevocationTest, AClientOfARevokedIssuerIsRefused) {
  const TestAuthority below("below", authority_);
  TestPair pair = below.Sign({.uris = {kInspector}});
  pair.certificate += below.certificate();
  const grpc::Status before = ListSessions(Connect(pair));
  EXPECT_TRUE(before.ok()) << before.error_message();
  Revoke({.certificates = {below.certificate()}});
  EXPECT_TRUE(Becomes([&] { return IsRevoked(ListSessions(Connect(pair))); }));
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
}

TEST_F(RevocationTest, ABadListLeavesTheFormerOneInForce) {
  const TestPair pair = Of({kInspector});
  Revoke({.certificates = {pair.certificate}});
  ASSERT_TRUE(Becomes([&] { return IsRevoked(ListSessions(Connect(pair))); }));
  files_.Replace("crl.pem", TestAuthority("strangers").Revoke({}));
  EXPECT_TRUE(Becomes([&] { return !log_.LinesWith("certificates not replaced").empty(); }));
  EXPECT_THAT(log_.LinesWith("certificates not replaced").front(),
              HasSubstr("tcp.revoked: " + files_.path("crl.pem") + ": list 1 in it is of CN=strangers"));
  EXPECT_TRUE(IsRevoked(ListSessions(Connect(pair))));
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
}

TEST_F(RevocationTest, AListThatIsOverdueStaysInForceAndIsLoggedOnce) {
  const TestPair pair = Of({kInspector});
  Revoke({.certificates = {pair.certificate}, .next_update = -60});
  EXPECT_TRUE(Becomes([&] { return !log_.LinesWith("revocation list expired").empty(); }));
  EXPECT_THAT(log_.LinesWith("revocation list expired").front(), HasSubstr("CN=authority"));
  EXPECT_TRUE(IsRevoked(ListSessions(Connect(pair))));
  EXPECT_TRUE(IsLetIn(Of({kInspector})));
  EXPECT_EQ(log_.LinesWith("revocation list expired").size(), 1u);
}

// What is indented in a section of docs/operating.md.
std::vector<std::string> CodeOf(const std::string& section) {
  std::ifstream page("docs/operating.md");
  std::vector<std::string> code;
  bool within = false;
  for (std::string line; std::getline(page, line);) {
    if (absl::StartsWith(line, "## ")) within = line == "## " + section;
    if (within && absl::StartsWith(line, "    ")) code.push_back(line.substr(4));
  }
  return code;
}

class RemoteProgramTest : public RemoteTest {
 protected:
  RemoteProgramTest() {
    Write("inspector", Of({kInspector}));
    Write("administrator", Of({kAdministrator}));
    Write("stranger", strangers_.Sign({.uris = {kInspector}}));
    std::ofstream(files_.path("strangers.pem")) << strangers_.certificate();
  }
  void Write(const std::string& name, const TestPair& pair) {
    std::ofstream(files_.path(name + ".pem")) << pair.certificate;
    std::ofstream(files_.path(name + ".key")) << pair.private_key;
  }
  Ending Run(const std::string& who, const std::string& authorities, const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {
        "client/ctl/rdma-brokerctl", "--address",     daemon_->tcp_address(),    "--certificate",
        files_.path(who + ".pem"),   "--private-key", files_.path(who + ".key"), "--authorities",
        files_.path(authorities)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunToEnd(command, files_.path("errors"));
  }

  const TestAuthority strangers_{"strangers"};
};

struct ProgramRow {
  const char* who;
  const char* authorities;
  std::vector<std::string> arguments;
  int status;
  const char* output;
  const char* error;
};

TEST_F(RemoteProgramTest, AsksABrokerOverTcp) {
  const ProgramRow rows[] = {
      {"inspector", "ca.pem", {"adapters"}, 0, "fake1", ""},
      {"inspector", "ca.pem", {"health"}, 0, "serving", ""},
      {"inspector", "ca.pem", {"restart"}, 1, "", "STATUS_ACCESS_DENIED: caller: only root"},
      {"administrator", "ca.pem", {"loglevel"}, 0, "info", ""},
      {"inspector", "ca.pem", {"--server-name", kBroker, "adapters"}, 0, "fake1", ""},
      {"inspector", "ca.pem", {"--server-name", kInspector, "adapters"}, 3, "", "no broker answers on 127.0.0.1:"},
      {"inspector", "ca.pem", {"--server-name", "elsewhere", "adapters"}, 3, "", "for this host or --server-name"},
      {"inspector", "strangers.pem", {"adapters"}, 3, "", "whether --authorities has signed its certificate"},
      {"stranger", "ca.pem", {"adapters"}, 3, "", "tcp.client_authorities have signed --certificate"},
      {"nobody", "ca.pem", {"adapters"}, 2, "", "nobody.pem: cannot be read"},
      {"inspector", "nothing.pem", {"adapters"}, 2, "", "nothing.pem: cannot be read"},
      {"inspector", "ca.pem", {"doctor"}, 2, "", "leave --address out"},
  };
  for (const ProgramRow& row : rows) {
    SCOPED_TRACE(std::string(row.who) + " " + row.authorities + " " + row.arguments.back());
    const Ending ending = Run(row.who, row.authorities, row.arguments);
    EXPECT_EQ(ending.status, row.status);
    EXPECT_THAT(ending.output, HasSubstr(row.output));
    EXPECT_THAT(ending.error, HasSubstr(row.error));
    EXPECT_EQ(ending.error.empty(), std::string(row.error).empty()) << ending.error;
  }
}

// But for the places.
TEST_F(RemoteProgramTest, ThePagesConfigurationAndCommandAreTaken) {
  std::vector<std::string> code = CodeOf("The TCP port");
  ASSERT_FALSE(code.empty());
  std::string command = std::move(code.back());
  code.pop_back();
  std::string text = absl::StrJoin(code, "\n");
  EXPECT_EQ(absl::StrReplaceAll({{"192.0.2.7:4792", "127.0.0.1:0"}, {"/etc/rdma-broker/tls/", files_.path("")}}, &text),
            4);
  const auto loaded = LoadConfiguration(text + "\n[control]\nsocket_group = \"\"\n", "operating.md");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  configuration_ = loaded->configuration;
  Start({});
  TestClient client(NewChannel(daemon_->target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(absl::StrReplaceAll({{"rdma-brokerctl", "client/ctl/rdma-brokerctl"},
                                 {"node7:4792", daemon_->tcp_address()},
                                 {"me.", files_.path("me.")},
                                 {"ca.pem", files_.path("ca.pem")}},
                                &command),
            5);
  ASSERT_EQ(configuration_.tcp_administrators.size(), 1u);
  ASSERT_EQ(configuration_.tcp_inspectors.size(), 1u);
  for (const std::string& id : {configuration_.tcp_administrators[0], configuration_.tcp_inspectors[0]}) {
    Write("me", Of({id}));
    const Ending ending = RunToEnd(absl::StrSplit(command, ' '), files_.path("errors"));
    EXPECT_EQ(ending.status, 0) << ending.error;
    EXPECT_THAT(ending.output, HasSubstr(absl::StrCat("\n", client.session_id(), " ")));
  }
}

TEST_F(RemoteProgramTest, TakesItsOptionsFromTheEnvironment) {
  const Ending ending = RunToEnd(
      {"env", "RDMA_BROKER_ADDRESS=" + daemon_->tcp_address(),
       "RDMA_BROKER_CERTIFICATE=" + files_.path("inspector.pem"),
       "RDMA_BROKER_PRIVATE_KEY=" + files_.path("inspector.key"), "RDMA_BROKER_AUTHORITIES=" + files_.path("ca.pem"),
       std::string("RDMA_BROKER_SERVER_NAME=") + kBroker, "client/ctl/rdma-brokerctl", "adapters"},
      files_.path("errors"));
  EXPECT_EQ(ending.status, 0) << ending.error;
  EXPECT_THAT(ending.output, HasSubstr("fake1"));
}

TEST_F(RemoteProgramTest, ToldHalfOfItRefusesAndNamesTheRest) {
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{"--address", "127.0.0.1:1"}, "--address needs --certificate"},
      {{"--address", "127.0.0.1:1", "--certificate", "/c", "--private-key", "/k"}, "--address needs --authorities"},
      {{"--certificate", "/c"}, "--certificate is for --address"},
      {{"--server-name", "x"}, "--server-name is for --address"},
      {{"--address", "127.0.0.1", "--certificate", "/c", "--private-key", "/k", "--authorities", "/a"},
       "127.0.0.1 is no HOST:PORT"},
  };
  for (const auto& [arguments, complaint] : rows) {
    std::vector<std::string> command = {"client/ctl/rdma-brokerctl"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back("adapters");
    const Ending ending = RunToEnd(command, files_.path("errors"));
    EXPECT_EQ(ending.status, 2) << complaint;
    EXPECT_THAT(ending.error, HasSubstr(complaint));
  }
}

}  // namespace
}  // namespace rdmabroker
