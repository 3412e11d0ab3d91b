// SPDX-License-Identifier: Apache-2.0

// A configuration that changes while rdma-brokerd runs: by SIGHUP, by rdma-brokerctl, and by the contract.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "tests/control/child_process.h"
#include "tests/control/hanging_file.h"
#include "tests/control/network_thread.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Anybody but root and this process's user.
constexpr uid_t kSomebody = 54321;

using Administration = v1::Administration::Stub;

template <typename Request, typename Reply>
grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::Status (Administration::*method)(grpc::ClientContext*, const Request&, Reply*),
                 const Request& request, Reply* reply) {
  auto stub = v1::Administration::NewStub(channel);
  grpc::ClientContext context;
  Limit(context);
  return (stub.get()->*method)(&context, request, reply);
}

grpc::Status Reload(const std::shared_ptr<grpc::Channel>& channel, v1::ReloadReply* reply) {
  return Ask(channel, &Administration::Reload, v1::ReloadRequest(), reply);
}

grpc::Status LogLevel(const std::shared_ptr<grpc::Channel>& channel, const std::string& level, std::string* now) {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  v1::SetLogLevelReply reply;
  grpc::Status status = Ask(channel, &Administration::SetLogLevel, request, &reply);
  *now = reply.level();
  return status;
}

std::vector<std::string> Texts(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

class ReloadTest : public testing::Test {
 protected:
  ReloadTest() {
    std::filesystem::create_directory(sockets());
    Configure("");
  }

  std::string sockets() const { return folder_.path() + "/sockets"; }
  std::string file() const { return folder_.path() + "/broker.toml"; }
  std::string target() const { return "unix:" + sockets() + "/control.sock"; }
  // Three lines, and what follows them.
  void Configure(const std::string& more) {
    std::ofstream(file()) << "[control]\nsocket_directory = \"" << sockets() << "\"\nsocket_group = \"\"\n" << more;
  }
  void Start() {
    daemon_ = std::make_unique<ChildProcess>(std::vector<std::string>{"broker/rdma-brokerd", "--config", file()},
                                             ChildProcess::Errors::kToItsOutput);
    AwaitLine(" serving ");
  }
  // The next line with this in it.
  std::string AwaitLine(const std::string& text) {
    std::string line = daemon_->ReadLine();
    while (!line.empty() && line.find(text) == std::string::npos) line = daemon_->ReadLine();
    EXPECT_NE(line, "") << "it does not say " << text;
    return line;
  }
  uint32_t BacklogOfANewSession() {
    TestClient client(NewChannel(target()));
    EXPECT_EQ(client.Open(), NdkStatus::kSuccess);
    return client.opened().limits().backlog();
  }
  Ending Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"client/ctl/rdma-brokerctl", "--socket", sockets() + "/control.sock"});
    return RunToEnd(std::move(arguments), folder_.path() + "/errors");
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> daemon_;
};

TEST_F(ReloadTest, SighupAppliesWhatMayChangeAndNamesWhatMayNot) {
  Start();
  TestClient client(NewChannel(target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  Configure("socket_mode = 0o600\n[limits]\nbacklog = 7\nsessions_per_uid = 2\n");
  daemon_->Signal(SIGHUP);
  const std::string line = AwaitLine("configuration applied");
  EXPECT_THAT(line, HasSubstr("applied=limits.backlog,limits.sessions_per_uid"));
  EXPECT_THAT(line, HasSubstr("needs_restart=control.socket_mode"));
  EXPECT_EQ(BacklogOfANewSession(), 7u);
  EXPECT_NE(client.OpenAdapter("iwarp0"), 0u) << "who was there before goes on";
}

TEST_F(ReloadTest, ABadFileIsRefusedWithItsFileLineAndKeyAndChangesNothing) {
  Configure("[limits]\nbacklog = 7\n");
  Start();
  Configure("[limits]\nbacklog = 8\nevents_kept = 1\n");
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(AwaitLine("configuration not applied"), HasSubstr(file() + ":6: limits.events_kept: 1 is not from 16"));
  v1::ReloadReply reply;
  const grpc::Status refused = Reload(NewChannel(target()), &reply);
  EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kInvalidParameter);
  EXPECT_THAT(refused.error_message(), HasSubstr(file() + ":6: limits.events_kept: 1 is not from 16"));
  const Ending ending = Run({"reload"});
  EXPECT_EQ(ending.status, 1);
  EXPECT_THAT(ending.error, HasSubstr(file() + ":6: limits.events_kept: 1 is not from 16"));
  EXPECT_EQ(BacklogOfANewSession(), 7u);
  Configure("[limits]\nbacklog = 8\n");
  EXPECT_EQ(Run({"reload"}).output, "applied: limits.backlog\n");
  EXPECT_EQ(BacklogOfANewSession(), 8u);
  EXPECT_EQ(Run({"reload"}).output, "nothing has changed\n");
}

TEST_F(ReloadTest, APolicyHoldsAtOnceForWhatIsNewAndABadOneLeavesItInUse) {
  Start();
  TestClient before(NewChannel(target()));
  ASSERT_EQ(before.Open(), NdkStatus::kSuccess);
  const auto open_another = [&] { return TestClient(NewChannel(target())).Open(); };
  const std::string policy = "[policy]\ndefault = \"deny\"\n";
  Configure(policy);
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(AwaitLine("configuration applied"), HasSubstr("applied=policy "));
  EXPECT_EQ(open_another(), NdkStatus::kAccessDenied);
  Configure(policy + "[[policy.rules]]\nallow = true\n");
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(AwaitLine("configuration not applied"), HasSubstr(file() + ":6: policy.rules.name: missing"));
  EXPECT_EQ(open_another(), NdkStatus::kAccessDenied);
  EXPECT_EQ(before.Close(), NdkStatus::kSuccess) << "who was there before goes on";
}

TEST_F(ReloadTest, TheReplyListsBothKindsOfKeys) {
  Start();
  Configure("socket_mode = 0o600\npatience_ms = 5000\n[timeouts]\nconnect_ms = 5\n");
  v1::ReloadReply reply;
  ASSERT_TRUE(Reload(NewChannel(target()), &reply).ok());
  EXPECT_THAT(Texts(reply.applied()), ElementsAre("control.patience_ms", "timeouts.connect_ms"));
  EXPECT_THAT(Texts(reply.needs_restart()), ElementsAre("control.socket_mode"));
  EXPECT_EQ(Run({"reload"}).output, "needs a restart: control.socket_mode\n");
  EXPECT_THAT(Run({"-o", "json", "reload"}).output, HasSubstr("\"needs_restart\": ["));
}

TEST_F(ReloadTest, ALogLevelLastsUntilTheNextReload) {
  Configure("[log]\nlevel = \"warning\"\n");
  daemon_ = std::make_unique<ChildProcess>(std::vector<std::string>{"broker/rdma-brokerd", "--config", file()});
  const auto channel = NewChannel(target());
  std::string level;
  EXPECT_TRUE(Becomes([&] { return LogLevel(NewChannel(target()), "", &level).ok(); }));
  EXPECT_EQ(level, "warning");
  EXPECT_EQ(Run({"loglevel", "debug"}).output, "debug\n");
  EXPECT_EQ(Run({"loglevel"}).output, "debug\n");
  EXPECT_EQ(NdkStatusOf(LogLevel(channel, "loud", &level)), NdkStatus::kInvalidParameter);
  EXPECT_EQ(Run({"loglevel", "loud"}).status, 2);
  EXPECT_EQ(Run({"loglevel"}).output, "debug\n");
  EXPECT_EQ(Run({"reload"}).status, 0);
  EXPECT_EQ(Run({"loglevel"}).output, "warning\n") << "although the file has not changed";
}

// It cannot be read, so it is bad; what the daemon has it keeps.
TEST_F(ReloadTest, AFileThatHasGoneEndsNothing) {
  Start();
  std::filesystem::remove(file());
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(AwaitLine("configuration not applied"), HasSubstr(file() + ": cannot be read: No such file"));
  EXPECT_EQ(BacklogOfANewSession(), Limits().backlog);
}

TEST_F(ReloadTest, AFileThatHangsHoldsNobodyUp) {
  Start();
  const HangingFile hanging(file());
  daemon_->Signal(SIGHUP);
  EXPECT_EQ(BacklogOfANewSession(), Limits().backlog);
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Finish(), 0) << "nor does it hold up the end";
}

TEST_F(ReloadTest, CertificatesThatDoNotFitKeepADaemonFromItsFirstStart) {
  const TestAuthority authority("authority");
  std::ofstream(folder_.path() + "/cert.pem") << authority.Sign({}).certificate;
  std::ofstream(folder_.path() + "/key.pem") << authority.Sign({}).private_key;
  std::ofstream(folder_.path() + "/ca.pem") << authority.certificate();
  const std::string at = folder_.path();
  Configure("[tcp]\naddress = \"127.0.0.1:0\"\ncertificate = \"" + at + "/cert.pem\"\nprivate_key = \"" + at +
            "/key.pem\"\nclient_authorities = \"" + at + "/ca.pem\"\n");
  for (const char* check : {"", "--check-config"}) {
    std::vector<std::string> command = {"broker/rdma-brokerd", "--config", file()};
    if (*check != '\0') command.push_back(check);
    const Ending ending = RunToEnd(command, folder_.path() + "/errors");
    EXPECT_EQ(ending.status, 2);
    EXPECT_THAT(ending.error, HasSubstr("rdma-brokerd: tcp.private_key: " + at + "/key.pem: is not the key of"));
  }
}

// A daemon with a TCP port, and who asks it there.
class ReloadOfCertificates : public ReloadTest {
 protected:
  static constexpr char kInspector[] = "spiffe://example.org/inspector";

  // The daemon's and the inspector's, of one authority.
  void Write(const std::string& authority_name) {
    const TestAuthority authority(authority_name);
    std::ofstream(Path(authority_name, "authority")) << authority.certificate();
    std::ofstream(Path(authority_name, "revoked")) << authority.Revoke({});
    for (const std::string who : {"broker", "inspector"}) {
      const TestPair pair = authority.Sign({.uris = {kInspector}, .addresses = {"127.0.0.1"}});
      std::ofstream(Path(authority_name, who)) << pair.certificate;
      std::ofstream(Path(authority_name, who + ".key")) << pair.private_key;
      std::ofstream(Path(authority_name, who + "s_revocation"))
          << authority.Revoke({.certificates = {pair.certificate}});
    }
  }
  void ConfigureWith(const std::string& authority, const std::string& revoked = "") {
    Configure(WithInspectors() + "revoked = \"" + revoked + "\"\n" + "address = \"127.0.0.1:0\"\ncertificate = \"" +
              Path(authority, "broker") + "\"\nprivate_key = \"" + Path(authority, "broker.key") +
              "\"\nclient_authorities = \"" + Path(authority, "authority") + "\"\n");
  }
  static std::string WithInspectors() { return "[tcp]\ninspectors = [\"" + std::string(kInspector) + "\"]\n"; }
  // Where its port is.
  std::string StartWith(const std::string& authority) {
    ConfigureWith(authority);
    daemon_ = std::make_unique<ChildProcess>(std::vector<std::string>{"broker/rdma-brokerd", "--config", file()},
                                             ChildProcess::Errors::kToItsOutput);
    const std::string event = "serving over tcp address=";
    const std::string line = AwaitLine(event);
    AwaitLine(" serving socket=");
    return line.substr(std::min(line.size(), line.find(event) + event.size()));
  }
  Ending AskForHealth(const std::string& address, const std::string& authority) {
    return RunToEnd(
        {"client/ctl/rdma-brokerctl", "--address", address, "--certificate", Path(authority, "inspector"),
         "--private-key", Path(authority, "inspector.key"), "--authorities", Path(authority, "authority"), "health"},
        folder_.path() + "/errors");
  }
  std::string Path(const std::string& authority, const std::string& file) const {
    return folder_.path() + "/" + authority + "." + file;
  }
};

TEST_F(ReloadOfCertificates, OfAnotherAuthorityHoldsForWhoComesNext) {
  Write("first");
  Write("second");
  const std::string address = StartWith("first");
  EXPECT_EQ(AskForHealth(address, "first").status, 0);
  EXPECT_EQ(AskForHealth(address, "second").status, 3);
  ConfigureWith("second");
  EXPECT_EQ(Run({"reload"}).output,
            "applied: tcp.certificate\napplied: tcp.client_authorities\napplied: tcp.private_key\n");
  const Ending ending = AskForHealth(address, "second");
  EXPECT_EQ(ending.status, 0) << ending.error;
  EXPECT_EQ(AskForHealth(address, "first").status, 3);
}

TEST_F(ReloadOfCertificates, AGoodRevocationListIsAppliedAndABadOneChangesNothing) {
  Write("first");
  Write("second");
  const std::string address = StartWith("first");
  ConfigureWith("first", Path("first", "inspectors_revocation"));
  EXPECT_EQ(Run({"reload"}).output, "applied: tcp.revoked\n");
  const Ending refused = AskForHealth(address, "first");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.error, HasSubstr("revoked by a list in tcp.revoked"));
  ConfigureWith("first", Path("second", "revoked"));
  const Ending bad = Run({"reload"});
  EXPECT_NE(bad.status, 0);
  EXPECT_THAT(bad.error, HasSubstr("tcp.revoked: " + Path("second", "revoked") + ": list 1 in it is of CN=second"));
  EXPECT_NE(AskForHealth(address, "first").status, 0);
  ConfigureWith("first", Path("first", "revoked"));
  EXPECT_EQ(Run({"reload"}).output, "applied: tcp.revoked\n");
  EXPECT_EQ(AskForHealth(address, "first").status, 0);
}

TEST_F(ReloadOfCertificates, OfAPortThatTheFileHasNoMoreAreReadFromWhereTheyWere) {
  Write("first");
  const std::string address = StartWith("first");
  EXPECT_EQ(AskForHealth(address, "first").status, 0);
  Configure(WithInspectors());
  EXPECT_EQ(Run({"reload"}).output,
            "needs a restart: tcp.address\nneeds a restart: tcp.certificate\nneeds a restart: tcp.client_authorities\n"
            "needs a restart: tcp.private_key\n");
  EXPECT_EQ(AskForHealth(address, "first").status, 0);
  // Renewed, by another authority.
  Write("first");
  EXPECT_TRUE(Becomes([&] { return AskForHealth(address, "first").status == 0; }));
}

// In the test's process, where other users may come.
class ReloadRights : public testing::Test {
 protected:
  NetworkThread network_;
  TestDaemon daemon_{network_};
};

TEST_F(ReloadRights, OnlyAdministratorsReloadAndSeeTheLogLevel) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!somebody) GTEST_SKIP() << "needs a root that may become other users";
  v1::ReloadReply reply;
  EXPECT_EQ(NdkStatusOf(Reload(somebody, &reply)), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(Reload(NewChannel(daemon_.target()), &reply)), NdkStatus::kNotSupported)
      << "this one has no file";
  std::string level;
  for (const char* wanted : {"", "debug"}) {
    EXPECT_EQ(NdkStatusOf(LogLevel(somebody, wanted, &level)), NdkStatus::kAccessDenied);
    EXPECT_EQ(level, "");
  }
}

TEST_F(ReloadRights, WhoHasBecomeAnAdministratorIsOneOnTheConnectionThatHeHas) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!somebody) GTEST_SKIP() << "needs a root that may become other users";
  std::string level;
  EXPECT_EQ(NdkStatusOf(LogLevel(somebody, "", &level)), NdkStatus::kAccessDenied);
  LoadedConfiguration loaded;
  loaded.configuration = TestConfiguration();
  loaded.administrators_group = kSomebody;
  daemon_.Apply(loaded);
  EXPECT_TRUE(LogLevel(somebody, "", &level).ok());
  loaded.administrators_group.reset();
  daemon_.Apply(loaded);
  EXPECT_EQ(NdkStatusOf(LogLevel(somebody, "", &level)), NdkStatus::kAccessDenied) << "and no longer";
}

}  // namespace
}  // namespace rdmabroker
