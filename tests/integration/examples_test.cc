// SPDX-License-Identifier: Apache-2.0

// The examples, as a user runs them: processes beside a broker's, over user-space iWARP. Each checks what it shows, and
// ends with an error where it is not so.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker {
namespace {

class Examples : public testing::Test {
 protected:
  using Process = std::unique_ptr<ChildProcess>;

  Process Start(const std::string& program, const char* role, std::vector<std::string> options) {
    std::vector<std::string> command = {"client/examples/" + program, role, "--socket", broker.control_socket()};
    command.insert(command.end(), options.begin(), options.end());
    return std::make_unique<ChildProcess>(std::move(command), ChildProcess::Errors::kToItsOutput);
  }
  // The rest of the first line that begins so.
  static std::string Awaited(const Process& process, const std::string& beginning) {
    std::string said;
    for (std::string line = process->ReadLine(); !line.empty(); line = process->ReadLine()) {
      absl::StrAppend(&said, line, "\n");
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, beginning)) return std::string(rest);
    }
    ADD_FAILURE() << "\"" << beginning << "\" does not come; it said:\n" << said;
    return "";
  }
  static std::string AddressOf(const Process& server) { return Awaited(server, "server: listening on "); }
  // It ends by itself and well, with that line as its last.
  static void ExpectEnd(const Process& process, const std::string& last) {
    const std::string said = process->ReadAll();
    EXPECT_EQ(process->End(), 0) << said;
    EXPECT_TRUE(said == last + "\n" || absl::EndsWith(said, "\n" + last + "\n")) << said;
  }

  void TearDown() override {
    EXPECT_TRUE(Becomes([this] { return broker.Objects().empty(); })) << "something is left at the broker";
    EXPECT_EQ(broker.Stop(), 0);
  }

  RunningBroker broker;
};

TEST_F(Examples, RequestReplyGivesEachOfSeveralClientsItsOwnReplies) {
  const Process server = Start("request_reply", "server", {"--count", "3"});
  const std::string address = AddressOf(server);
  std::vector<Process> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Start("request_reply", "client", {"--server", address, "--count", "200"}));
  }
  for (const Process& client : clients) ExpectEnd(client, "client: 200 requests, each with its own reply");
  ExpectEnd(server, "server: 600 requests of 3 clients, by one queue of 6 receives");
}

TEST_F(Examples, KeyValueReadsOneSidedUntilTheWindowIsInvalidated) {
  const Process server = Start("key_value", "server", {"--count", "2"});
  EXPECT_EQ(server->ReadLine(), "server: a memory window for each client");
  const std::string address = AddressOf(server);
  for (int i = 0; i < 2; ++i) {
    const Process client = Start("key_value", "client", {"--server", address});
    EXPECT_EQ(client->ReadLine(), "client: 32 values read, and one key not found");
    const std::string refused = Awaited(client, "client: revoked, and the next read ends with: ");
    EXPECT_TRUE(absl::StrContains(refused, "STATUS_CONNECTION_ABORTED") ||
                absl::StrContains(refused, "STATUS_ACCESS_VIOLATION"))
        << refused;
    EXPECT_EQ(client->End(), 0);
  }
  ExpectEnd(server, "server: revoked by Invalidate\nserver: revoked by Invalidate");
}

TEST_F(Examples, ManyPeersShareALocalAddressThatIsHeldUntilTheLastIsClosed) {
  std::vector<Process> servers;
  std::vector<std::string> addresses;
  std::vector<std::string> options;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(Start("many_peers", "server", {}));
    addresses.push_back(AddressOf(servers.back()));
    options.insert(options.end(), {"--server", addresses.back()});
  }
  const Process client = Start("many_peers", "client", options);
  const std::string first = Awaited(client, "client: ");
  const std::string local = first.substr(0, first.find(' '));
  EXPECT_EQ(first, local + " to " + addresses[0]);
  for (int i = 1; i < 3; ++i) EXPECT_EQ(client->ReadLine(), "client: " + local + " to " + addresses[i]);
  const std::string held = "client: " + local + " is held\n";
  ExpectEnd(client, held + held + held + "client: " + local + " is free");
  for (int i = 0; i < 3; ++i) ExpectEnd(servers[i], "server: somebody said \"hello, " + addresses[i] + "\"");
}

TEST_F(Examples, PausedListenerLosesNobody) {
  const Process server = Start("paused_listener", "server", {"--count", "40"});
  const Process client = Start("paused_listener", "client", {"--server", AddressOf(server), "--count", "40"});
  Awaited(server, "server: paused after 20 peers; ");
  Awaited(client, "client: refused, trying on: connect: STATUS_CONNECTION_REFUSED: ");
  server->WriteLine("");
  ExpectEnd(server, "server: resumed\nserver: 40 peers served");
  const std::string refused = Awaited(client, "client: all 40 connections served; refused ");
  int times = 0;
  EXPECT_TRUE(absl::SimpleAtoi(absl::StripSuffix(refused, " times"), &times)) << refused;
  EXPECT_GT(times, 0);
  EXPECT_EQ(client->End(), 0);
}

// Of a wrong option, of a broker's refusal, and of a server that nobody starts.
TEST_F(Examples, WhatFailsIsSaidAndEndsWithAnError) {
  const struct {
    std::vector<std::string> options;
    const char* words;
  } cases[] = {
      {{"--server", "nowhere"}, "--server nowhere: not an IP:PORT"},
      {{"--server", "127.0.0.1:1", "--device", "iwarp7"}, "adapter: STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"--server", "127.0.0.1:1"}, "connect: STATUS_CONNECTION_REFUSED"},
  };
  for (const char* program : {"request_reply", "key_value", "many_peers"}) {
    for (const auto& with : cases) {
      const Process client = Start(program, "client", with.options);
      const std::string said = client->ReadAll();
      EXPECT_EQ(client->End(), 1) << program << ": " << said;
      EXPECT_TRUE(absl::StrContains(said, with.words)) << program << ": " << said;
    }
  }
}

}  // namespace
}  // namespace rdmabroker
