// SPDX-License-Identifier: Apache-2.0

// What becomes of a session whose stream is lost while its client's process lives.

#include "broker/control/transport_ends.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/session.pb.h"
#include "proto/rpc/client_connection.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
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

// A session whose client does with its connection what it likes.
class RawSession {
 public:
  RawSession(const std::string& path, bool with_batches)
      : socket_(ConnectAs(::getuid(), ::getgid(), path, SOCK_STREAM)), connection_(rpc::ClientConnection::Limits()) {
    call_ = connection_.Begin({.path = "/rdmabroker.v1.Broker/Session"}, Loop::Now());
    v1::SessionRequest open;
    open.mutable_open()->set_api_minor(2);
    if (with_batches) open.mutable_open()->add_features("requests-on-stream");
    connection_.Send(call_, open.SerializeAsString());
    connection_.Read(call_);
    Flush();
    while (session_ == 0 && Exchange()) continue;
  }

  SessionId id() const { return SessionId(session_); }

  void Cancel() {
    connection_.Cancel(call_);
    Flush();
  }
  void HalfClose() {
    connection_.EndRequests(call_);
    Flush();
  }
  void Disconnect() { socket_.Reset(); }
  void SendRaw(const std::string& octets) {
    EXPECT_EQ(::send(socket_.get(), octets.data(), octets.size(), MSG_NOSIGNAL), static_cast<ssize_t>(octets.size()));
  }
  // Reads until the broker has answered a ping, which it does in order.
  bool Pings(int count) {
    for (int i = 0; i < count; ++i) SendRaw(Frame(6, 0, "12345678"));
    size_t answered = 0;
    const std::string answer = std::string{0, 0, 8, 6, 1, 0, 0, 0, 0} + "12345678";
    while (answered < static_cast<size_t>(count)) {
      const std::string octets = Receive();
      if (octets.empty()) return false;
      for (size_t at = 0; (at = octets.find(answer, at)) != std::string::npos; ++at) ++answered;
    }
    return true;
  }

 private:
  void Flush() {
    while (connection_.HasOutput()) SendRaw(connection_.TakeOutput());
  }
  std::string Receive() {
    std::string octets(65536, '\0');
    pollfd ready = {.fd = socket_.get(), .events = POLLIN};
    if (::poll(&ready, 1, 30'000) != 1) return "";
    const ssize_t size = ::recv(socket_.get(), octets.data(), octets.size(), 0);
    octets.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return octets;
  }
  bool Exchange() {
    const std::string octets = Receive();
    if (octets.empty()) return false;
    connection_.Receive(octets, Loop::Now());
    while (const auto event = connection_.NextEvent()) {
      if (const auto* reply = std::get_if<rpc::ReplyArrived>(&*event)) {
        v1::SessionReply opened;
        EXPECT_TRUE(opened.ParseFromString(reply->reply));
        session_ = opened.opened().session_id();
      }
    }
    Flush();
    return true;
  }

  UniqueFd socket_;
  rpc::ClientConnection connection_;
  rpc::CallId call_ = 0;
  uint64_t session_ = 0;
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
  using End = std::function<void(RawSession&)>;
  const struct {
    const char* name;
    End end;
    bool ends_v1;
    bool ends_with_batches;
  } rows[] = {
      {"half-close", [](RawSession& session) { session.HalfClose(); }, true, true},
      {"cancel", [](RawSession& session) { session.Cancel(); }, true, false},
      {"reset", [&](RawSession& session) { session.SendRaw(reset); }, false, false},
      {"violation", [&](RawSession& session) { session.SendRaw(violation); }, false, false},
      {"disconnect", [](RawSession& session) { session.Disconnect(); }, false, false},
  };
  for (const auto& row : rows) {
    for (const bool with_batches : {false, true}) {
      SCOPED_TRACE(absl::StrCat(row.name, with_batches ? " with batches" : ""));
      RawSession session(daemon_.control_path(), with_batches);
      ASSERT_NE(session.id(), SessionId(0));
      row.end(session);
      EXPECT_TRUE((with_batches ? row.ends_with_batches : row.ends_v1) ? Ends(session.id()) : IsAway(session.id()));
    }
  }
}

// gRPC's clients are often set to a ping every second, or more.
TEST_F(TransportEndsTest, PingsCostNobodyASession) {
  RawSession session(daemon_.control_path(), false);
  EXPECT_TRUE(session.Pings(200));
  daemon_.OnLoop([&](const Broker& broker) {
    EXPECT_TRUE(static_cast<bool>(broker.core().records().sessions.at(session.id()).stream));
  });
}

}  // namespace
}  // namespace rdmabroker
