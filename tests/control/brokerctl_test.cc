// SPDX-License-Identifier: Apache-2.0

// rdma-brokerctl as people and scripts call it: its options, its exit statuses, and what goes where.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/control/child_process.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

class BrokerctlTest : public testing::Test {
 protected:
  Ending Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"env", "RDMA_BROKER_SOCKET=" + daemon_.control_path(), "client/ctl/rdma-brokerctl"});
    return RunToEnd(arguments, folder_.path() + "/errors");
  }

  TemporaryFolder folder_;
  NetworkThread network_;
  TestDaemon daemon_{network_};
};

struct Row {
  std::vector<std::string> arguments;
  int status;
  const char* output;  // Part of it; "" where there must be none.
  const char* error;   // Likewise.
};

TEST_F(BrokerctlTest, TheExitStatusTellsWhatWentWrong) {
  const std::string absent = folder_.path() + "/absent.sock";
  const std::string long_path = "/" + std::string(200, 'x');
  const Row rows[] = {
      {{"adapters"}, 0, "fake1", ""},
      {{"-o", "table", "adapters"}, 0, "NAME", ""},
      {{"adapters", "-o", "json"}, 0, "\"name\": \"fake1\"", ""},
      {{"--output", "json", "reservations"}, 0, "\"reservations\": []", ""},
      {{"health"}, 0, "serving\n", ""},
      {{"-o", "json", "health"}, 0, "\"status\": \"SERVING\"", ""},
      {{"--help"}, 0, "Exit status: 0 done", ""},
      {{}, 2, "", "subcommand is required"},
      {{"queue-pairs"}, 2, "", "subcommand is required"},
      {{"adapters", "sessions"}, 2, "", "not expected: sessions"},
      {{"--verbose", "adapters"}, 2, "", "--verbose"},
      {{"-o", "xml", "adapters"}, 2, "", "xml"},
      {{"end-session"}, 2, "", "ID is required"},
      {{"end-session", "all"}, 2, "", "all"},
      {{"--socket", long_path, "adapters"}, 2, "", "longer than 107 bytes"},
      {{"--socket", "", "adapters"}, 2, "", "the socket's path is empty"},
      {{"--socket", absent, "adapters"}, 3, "", "absent.sock"},
      {{"--socket", absent, "health"}, 3, "", "absent.sock"},
      {{"--socket", absent, "end-session", "1"}, 3, "", "absent.sock"},
      {{"--socket", absent, "doctor"}, 1, "no broker listens on", ""},
      {{"--socket", long_path, "doctor"}, 2, "", "longer than 107 bytes"},
      {{"end-session", "4711"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"end-session", "0"}, 1, "", "STATUS_INVALID_PARAMETER"},
      {{"disable-adapter"}, 2, "", "NAME is required"},
      {{"disable-adapter", "fake1", "--wait", "long"}, 2, "", "long"},
      {{"enable-adapter"}, 2, "", "NAME is required"},
      {{"disable-adapter", "siw9"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"enable-adapter", ""}, 1, "", "STATUS_INVALID_PARAMETER"},
      {{"restart"}, 1, "", "STATUS_NOT_SUPPORTED: broker: nobody would start it anew"},
  };
  for (const Row& row : rows) {
    std::string line;
    for (const std::string& argument : row.arguments) line += " " + argument;
    SCOPED_TRACE("rdma-brokerctl" + line);
    const Ending ending = Run(row.arguments);
    EXPECT_EQ(ending.status, row.status);
    EXPECT_NE(ending.output.find(row.output), std::string::npos) << ending.output;
    EXPECT_NE(ending.error.find(row.error), std::string::npos) << ending.error;
    EXPECT_EQ(ending.output.empty(), std::string(row.output).empty()) << ending.output;
    EXPECT_EQ(ending.error.empty(), std::string(row.error).empty()) << ending.error;
  }
}

TEST_F(BrokerctlTest, TheDoctorAsksTheBroker) {
  const Ending ending = Run({"doctor", "-o", "json"});
  // What else it finds, and so its exit status, is the machine's.
  const bool problem = ending.output.find("\"state\": \"problem\"") != std::string::npos;
  EXPECT_EQ(ending.status, problem ? 1 : 0);
  EXPECT_NE(ending.output.find("it answers; usable adapters: fake1"), std::string::npos) << ending.output;
}

TEST_F(BrokerctlTest, DisablesADeviceAndEnablesItAgain) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  ASSERT_NE(client.OpenAdapter("fake1"), 0u);
  const Ending waiting = Run({"disable-adapter", "fake1"});
  EXPECT_EQ(waiting.status, 1);
  EXPECT_NE(waiting.error.find("fake1 takes no more adapters, but 1 are still open"), std::string::npos)
      << waiting.error;
  EXPECT_NE(Run({"adapters"}).output.find("disabling"), std::string::npos);
  EXPECT_EQ(Run({"end-session", std::to_string(client.session_id())}).status, 0);
  EXPECT_EQ(Run({"disable-adapter", "fake1", "--wait", "60"}).status, 0);
  EXPECT_NE(Run({"adapters"}).output.find("disabled by an administrator"), std::string::npos);
  EXPECT_EQ(Run({"enable-adapter", "fake1"}).status, 0);
  EXPECT_EQ(Run({"adapters"}).output.find("disabled"), std::string::npos);
}

TEST_F(BrokerctlTest, EndsASession) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(Run({"end-session", std::to_string(client.session_id())}).status, 0);
  EXPECT_EQ(NdkStatusOf(client.WaitForEnd()), NdkStatus::kRequestAborted);
}

}  // namespace
}  // namespace rdmabroker
