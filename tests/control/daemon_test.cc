// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd itself, as the system starts it: what it does with its configuration, its sockets and its end.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "broker/monitoring/scrape_server.h"
#include "broker/runtime/tcp_listener.h"
#include "tests/control/child_process.h"
#include "tests/control/hanging_file.h"
#include "tests/control/scrape.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

constexpr char kDaemon[] = "broker/rdma-brokerd";

class DaemonTest : public testing::Test {
 protected:
  DaemonTest() { std::filesystem::create_directory(sockets()); }

  std::string sockets() const { return folder_.path() + "/sockets"; }
  std::string control() const { return sockets() + "/control.sock"; }
  std::string handoff() const { return sockets() + "/handoff.sock"; }
  std::string errors() const { return folder_.path() + "/errors"; }
  std::string file() const { return folder_.path() + "/rdma-broker.toml"; }
  // Three lines that are good, and what follows them.
  void Configure(const std::string& more = "") {
    std::ofstream(file()) << "[control]\nsocket_directory = \"" << sockets() << "\"\nsocket_group = \"\"\n" << more;
  }
  bool HasSockets() const { return std::filesystem::exists(control()) || std::filesystem::exists(handoff()); }

  Ending Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kDaemon);
    return RunToEnd(std::move(arguments), errors());
  }
  // A daemon that serves by the configuration.
  std::unique_ptr<ChildProcess> BeginToServe() {
    auto process = std::make_unique<ChildProcess>(std::vector<std::string>{kDaemon, "--config", file()},
                                                  ChildProcess::Errors::kToItsOutput);
    std::string line = process->ReadLine();
    while (!line.empty() && line.find(" serving ") == std::string::npos) line = process->ReadLine();
    EXPECT_NE(line, "") << "it does not serve";
    return process;
  }
  NdkStatus Open() { return TestClient(NewChannel("unix:" + control())).Open(); }

  TemporaryFolder folder_;
};

struct BadConfiguration {
  const char* text;
  const char* complaint;  // After the file's name.
};

TEST_F(DaemonTest, ABadConfigurationIsRefusedWithItsFileLineAndKey) {
  const BadConfiguration rows[] = {
      {"socket_folder = \"/x\"\n", ":4: control.socket_folder: unknown key"},
      {"[limits]\n\nbacklog = 0\n", ":6: limits.backlog: 0 is not from 1 to"},
      {"[timeouts]\nconnect_ms = \"soon\"\n", ":5: timeouts.connect_ms: must be a whole number"},
      {"[log]\nlevel = \"loud\"\n", ":5: log.level: must be one of trace"},
      {"[logs]\n", ":4: logs: unknown key"},
      {"[policy]\ndefault = \"never\"\n", ":5: policy.default: must be one of \"allow\", \"deny\""},
      {"[[policy.rules]]\nname = \"a\"\nallow = true\nadapters = []\n", ":7: policy.rules.adapters: is empty"},
      {"[control\n", ":4: "},
  };
  for (const BadConfiguration& row : rows) {
    Configure(row.text);
    for (const bool check : {false, true}) {
      std::vector<std::string> arguments = {"--config", file()};
      if (check) arguments.push_back("--check-config");
      const Ending ending = Run(arguments);
      EXPECT_EQ(ending.status, 2) << row.text;
      EXPECT_EQ(ending.error.find("rdma-brokerd: " + file() + row.complaint), 0u) << ending.error;
      EXPECT_EQ(ending.output, "");
      EXPECT_FALSE(HasSockets()) << row.text;
    }
  }
}

TEST_F(DaemonTest, LogsAnObjectALineWhereItsFileSaysSo) {
  Configure("[log]\nformat = \"json\"\n");
  ChildProcess process({kDaemon, "--config", file()}, ChildProcess::Errors::kToItsOutput);
  std::string line = process.ReadLine();
  for (; !line.empty() && line.find("\"event\":\"serving\"") == std::string::npos; line = process.ReadLine()) {
    EXPECT_EQ(line.find("{\"time\":\""), 0u) << line;
  }
  EXPECT_NE(
      line.find("\"level\":\"info\",\"program\":\"rdma-brokerd\",\"event\":\"serving\",\"socket\":\"" + control()),
      std::string::npos)
      << line;
}

TEST_F(DaemonTest, AFileThatIsMissingIsNamed) {
  for (const char* flag : {"", "--check-config"}) {
    std::vector<std::string> arguments = {"--config", file()};
    if (*flag != '\0') arguments.push_back(flag);
    const Ending ending = Run(arguments);
    EXPECT_EQ(ending.status, 2);
    EXPECT_EQ(ending.error.find("rdma-brokerd: " + file() + ": cannot be read: No such file"), 0u) << ending.error;
  }
  EXPECT_FALSE(HasSockets());
}

TEST_F(DaemonTest, AFileThatHangsIsNamed) {
  // It is bad, too, so that who has waited for it ends as well.
  Configure("[limits]\nbacklog = 0\n");
  for (const char* flag : {"", "--check-config"}) {
    const HangingFile hanging(file());
    std::vector<std::string> arguments = {"--config", file()};
    if (*flag != '\0') arguments.push_back(flag);
    const Ending ending = Run(arguments);
    EXPECT_EQ(ending.status, 2);
    EXPECT_EQ(ending.error.find("rdma-brokerd: " + file() + ": not read within 5s; its file system"), 0u)
        << ending.error;
  }
  EXPECT_FALSE(HasSockets());
}

TEST_F(DaemonTest, ACertificateThatHangsIsNamed) {
  const std::string certificate = folder_.path() + "/cert.pem";
  Configure("[tcp]\naddress = \"127.0.0.1:0\"\ncertificate = \"" + certificate +
            "\"\nprivate_key = \"/nowhere/key.pem\"\nclient_authorities = \"/nowhere/ca.pem\"\n");
  const HangingFile hanging(certificate);
  const Ending ending = Run({"--config", file()});
  EXPECT_EQ(ending.status, 2);
  EXPECT_EQ(ending.error.find("rdma-brokerd: " + certificate +
                              ", /nowhere/key.pem or /nowhere/ca.pem: not read within 5s; their file system hangs"),
            0u)
      << ending.error;
  EXPECT_FALSE(HasSockets());
}

TEST_F(DaemonTest, WrongUsageIsRefusedLikeABadConfiguration) {
  EXPECT_EQ(Run({"--no-such-option"}).status, 2);
  EXPECT_EQ(Run({"--help"}).status, 0);
}

TEST_F(DaemonTest, AGoodFileIsFineAndIsOnlyRead) {
  Configure("[log]\nlevel = \"debug\"\n");
  const Ending ending = Run({"--check-config", "--config", file()});
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(ending.output, file() + ": fine\n");
  EXPECT_EQ(ending.error, "");
  EXPECT_FALSE(HasSockets());
}

TEST_F(DaemonTest, WhomItsPolicyRefusesIsToldByWhatRule) {
  Configure("[policy]\ndefault = \"deny\"\n");
  const auto process = BeginToServe();
  TestClient client(NewChannel("unix:" + control()));
  grpc::ClientContext context;
  Limit(context);
  const auto stream = client.stub().Session(&context);
  v1::SessionRequest open;
  open.mutable_open()->set_api_minor(1);
  stream->Write(open);
  v1::SessionReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  const grpc::Status refused = stream->Finish();
  EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kAccessDenied);
  EXPECT_NE(refused.error_message().find("policy.default: a session is allowed by no rule"), std::string::npos)
      << refused.error_message();
}

TEST_F(DaemonTest, ASignalEndsItInOrderAndItsSocketsAreGone) {
  Configure();
  for (const int signal : {SIGTERM, SIGINT}) {
    const auto process = BeginToServe();
    TestClient client(NewChannel("unix:" + control()));
    EXPECT_EQ(client.Open(), NdkStatus::kSuccess);
    process->Signal(signal);
    EXPECT_EQ(NdkStatusOf(client.WaitForEnd()), NdkStatus::kConnectionDisconnected);
    EXPECT_EQ(process->Finish(), 0) << process->ReadAll();
    EXPECT_FALSE(HasSockets());
  }
}

// docs/ARCHITECTURE.md names them. ThreadSanitizer has one of its own.
TEST_F(DaemonTest, AnIdleDaemonHasFourThreads) {
  int threads = 4;
#ifdef ABSL_HAVE_THREAD_SANITIZER
  ++threads;
#endif
  Configure();
  const auto process = BeginToServe();
  const auto count = [&process] {
    const auto tasks = std::filesystem::directory_iterator("/proc/" + std::to_string(process->pid()) + "/task");
    return std::distance(begin(tasks), end(tasks));
  };
  // The one that has read the configuration first may take its time to end.
  EXPECT_TRUE(Becomes([&] { return count() == threads; })) << count();
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Finish(), 0);
}

TEST_F(DaemonTest, ASignalThatMeansNothingToItDoesNotEndIt) {
  Configure();
  const auto process = BeginToServe();
  process->Signal(SIGUSR1);
  std::string line = process->ReadLine();
  while (!line.empty() && line.find("signal ignored signal=SIGUSR1") == std::string::npos) line = process->ReadLine();
  EXPECT_NE(line, "") << "it does not say so";
  EXPECT_EQ(Open(), NdkStatus::kSuccess);
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Finish(), 0);
}

// The kernel's devices and their connection manager may come later.
TEST_F(DaemonTest, WhatTheKernelDoesNotHaveYetKeepsItFromNothingAndIsNotLeftOut) {
  if (std::filesystem::exists("/dev/infiniband/rdma_cm")) GTEST_SKIP() << "this machine has a connection manager";
  Configure();
  ChildProcess process({kDaemon, "--config", file()}, ChildProcess::Errors::kToItsOutput);
  std::string line = process.ReadLine();
  for (; !line.empty() && line.find(" serving ") == std::string::npos; line = process.ReadLine()) {
    EXPECT_EQ(line.find("the kernel's devices are left out"), std::string::npos) << line;
  }
  TestClient client(NewChannel("unix:" + control()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_NE(client.OpenAdapter("iwarp0"), 0u);
}

TEST_F(DaemonTest, SocketsInUseAreLeftAloneAndStaleOnesTakenOver) {
  Configure();
  const auto first = BeginToServe();
  const Ending second = Run({"--config", file()});
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.error.find("/state/last_commit: another broker has this store"), std::string::npos) << second.error;
  EXPECT_EQ(Open(), NdkStatus::kSuccess);
  first->Kill();
  EXPECT_TRUE(std::filesystem::is_socket(control()) && std::filesystem::is_socket(handoff()));
  const auto third = BeginToServe();
  EXPECT_EQ(Open(), NdkStatus::kSuccess);
  third->Signal(SIGTERM);
  EXPECT_EQ(third->Finish(), 0);
}

TEST_F(DaemonTest, AStartThatFailsLeavesNoSocketBehind) {
  Configure();
  std::ofstream(handoff()) << "in the way";
  const Ending ending = Run({"--config", file()});
  EXPECT_EQ(ending.status, 1);
  EXPECT_EQ(ending.error.find("rdma-brokerd: " + handoff() + ": exists and is no socket"), 0u) << ending.error;
  EXPECT_FALSE(std::filesystem::exists(control()));
  EXPECT_TRUE(std::filesystem::is_regular_file(handoff()));
}

TEST_F(DaemonTest, AMetricsPortInUseIsAnErrorAtTheFirstStart) {
  const auto used = ListenOnTcp("address", "127.0.0.1:0", 1);
  ASSERT_TRUE(used.ok()) << used.status();
  const std::string address = AddressOf(*used).ToString();
  Configure("[metrics]\naddress = \"" + address + "\"\n");
  const Ending ending = Run({"--config", file()});
  EXPECT_EQ(ending.status, 1);
  EXPECT_NE(ending.error.find("rdma-brokerd: metrics.address: " + address + ": cannot be listened on: Address already"),
            std::string::npos)
      << ending.error;
  EXPECT_FALSE(HasSockets());
}

TEST_F(DaemonTest, AMetricsPortInUseCostsNobodyWhatThereIsToTakeOver) {
  Configure("[metrics]\naddress = \"127.0.0.1:0\"\n");
  auto process = BeginToServe();
  TestClient client(NewChannel("unix:" + control()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  process->Kill();
  const auto used = ListenOnTcp("address", "127.0.0.1:0", 1);
  ASSERT_TRUE(used.ok()) << used.status();
  Configure("[metrics]\naddress = \"" + AddressOf(*used).ToString() + "\"\n");
  process = BeginToServe();
  TestClient returned(NewChannel("unix:" + control()));
  EXPECT_EQ(returned.Resume(client, 0), NdkStatus::kSuccess);
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Finish(), 0) << process->ReadAll();
}

// For a whole minute it would be ended by force.
TEST_F(DaemonTest, AScraperThatDoesNothingHoldsUpNoEnd) {
  Configure("[metrics]\naddress = \"127.0.0.1:0\"\n");
  auto process = std::make_unique<ChildProcess>(std::vector<std::string>{kDaemon, "--config", file()},
                                                ChildProcess::Errors::kToItsOutput);
  std::string line = process->ReadLine();
  while (!line.empty() && line.find("metrics served address=") == std::string::npos) line = process->ReadLine();
  const std::string address = line.substr(line.find('=') + 1);
  std::string serving = line;
  while (!serving.empty() && serving.find(" serving ") == std::string::npos) serving = process->ReadLine();
  EXPECT_EQ(Scrape(address).at("rdma_broker_sessions{state=\"open\"}"), 0);
  const UniqueFd idle = ConnectByTcp(address);
  ASSERT_TRUE(idle);
  process->Signal(SIGTERM);
  EXPECT_EQ(process->End(ScrapeServer::kPatience), 0) << process->ReadAll();
}

}  // namespace
}  // namespace rdmabroker
