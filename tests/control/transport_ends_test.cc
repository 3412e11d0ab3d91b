// SPDX-License-Identifier: Apache-2.0

// What becomes of a session whose stream is lost while its client's process lives.

#include "broker/control/transport_ends.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/raw_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Why = rpc::CallLost::Why;

TEST(EndOf, IsWhatTheContractSays) {
  constexpr Features kV1;
  constexpr Features kBatches = {.requests_on_stream = true};
  constexpr Identity kVisible = {.pid = 7};
  constexpr Identity kHidden = {.pid = 0};
  const struct {
    Why why;
    Features features;
    Identity client;
    bool ends;
  } rows[] = {
      {Why::kCancelled, kV1, kVisible, true},       {Why::kCancelled, kV1, kHidden, true},
      {Why::kCancelled, kBatches, kVisible, false}, {Why::kCancelled, kBatches, kHidden, false},
      {Why::kReset, kV1, kVisible, false},          {Why::kReset, kBatches, kHidden, false},
      {Why::kDeadline, kV1, kVisible, false},       {Why::kDeadline, kBatches, kHidden, false},
      {Why::kConnection, kV1, kVisible, false},     {Why::kConnection, kBatches, kVisible, false},
      {Why::kConnection, kV1, kHidden, true},       {Why::kConnection, kBatches, kHidden, true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(EndOf(row.why, row.features, row.client) == StreamEnd::kClient, row.ends)
        << static_cast<int>(row.why) << " " << row.features.requests_on_stream << " " << row.client.pid;
  }
}

// A frame of HTTP/2 (RFC 9113 section 4.1) on a stream below 256.
std::string Frame(char type, char stream, const std::string& payload) {
  return std::string{0, 0, static_cast<char>(payload.size()), type, 0, 0, 0, 0, stream} + payload;
}

constexpr absl::Duration kPatience = absl::Seconds(30);

// A session on a connection of its own.
struct Raw {
  Raw(const std::string& path, bool with_batches)
      : client(ConnectAs(::getuid(), ::getgid(), path, SOCK_STREAM)),
        session(client, with_batches ? std::vector<std::string>{"requests-on-stream"} : std::vector<std::string>()) {
    client.Flush();
    while (session.id() == SessionId(0) && !client.Receive(kPatience).empty()) continue;
  }

  // Reads until the broker has answered so many pings, which it does in order.
  bool Pings(size_t count) {
    for (size_t i = 0; i < count; ++i) client.SendRaw(Frame(6, 0, "12345678"));
    const std::string answer = std::string{0, 0, 8, 6, 1, 0, 0, 0, 0} + "12345678";
    for (size_t answered = 0; answered < count;) {
      const std::string octets = client.Receive(kPatience);
      if (octets.empty()) return false;
      for (size_t at = 0; (at = octets.find(answer, at)) != std::string::npos; ++at) ++answered;
    }
    return true;
  }

  RawClient client;
  RawSession session;
};

class TransportEndsTest : public testing::Test {
 protected:
  bool Ends(SessionId id) {
    return daemon_.Eventually([&](const Records& records) { return !records.sessions.contains(id); });
  }
  // Whether it has lost its stream, and lives.
  bool IsAway(SessionId id) {
    return daemon_.Eventually([&](const Records& records) {
      const auto session = records.sessions.find(id);
      return session != records.sessions.end() && !session->second.ended && !session->second.stream;
    });
  }

  NetworkThread network_;
  TestDaemon daemon_{network_};
};

TEST_F(TransportEndsTest, OnlyItsClientEndsASession) {
  const std::string reset = Frame(3, 1, std::string{0, 0, 0, 2});
  // DATA on no stream violates the protocol.
  const std::string violation = Frame(0, 0, "x");
  using End = std::function<void(Raw&)>;
  const struct {
    const char* name;
    End end;
    bool ends_v1;
    bool ends_with_batches;
  } rows[] = {
      {"half-close", [](Raw& raw) { raw.session.HalfClose(); }, true, true},
      {"cancel", [](Raw& raw) { raw.session.Cancel(); }, true, false},
      {"reset", [&](Raw& raw) { raw.client.SendRaw(reset); }, false, false},
      {"violation", [&](Raw& raw) { raw.client.SendRaw(violation); }, false, false},
      {"disconnect", [](Raw& raw) { raw.client.socket().Reset(); }, false, false},
  };
  for (const auto& row : rows) {
    for (const bool with_batches : {false, true}) {
      SCOPED_TRACE(absl::StrCat(row.name, with_batches ? " with batches" : ""));
      Raw raw(daemon_.control_path(), with_batches);
      const SessionId id = raw.session.id();
      ASSERT_NE(id, SessionId(0));
      row.end(raw);
      raw.client.Flush();
      EXPECT_TRUE((with_batches ? row.ends_with_batches : row.ends_v1) ? Ends(id) : IsAway(id));
    }
  }
}

// gRPC's clients are often set to a ping every second, or more.
TEST_F(TransportEndsTest, PingsCostNobodyASession) {
  Raw raw(daemon_.control_path(), false);
  EXPECT_TRUE(raw.Pings(200));
  daemon_.OnLoop([&](const Broker& broker) {
    EXPECT_TRUE(static_cast<bool>(broker.core().records().sessions.at(raw.session.id()).stream));
  });
}

}  // namespace
}  // namespace rdmabroker
