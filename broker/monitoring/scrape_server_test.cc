// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/scrape_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "broker/monitoring/http_request.h"
#include "broker/runtime/tcp_listener.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/thread_shortage.h"

namespace rdmabroker {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

std::string Answer(absl::string_view request) {
  return AnswerTo(request, [] { return std::string("page\n"); }).value_or("nothing yet");
}

TEST(AnswerTo, AGetOfMetricsIsThePage) {
  for (const char* request : {kGet, "GET /metrics?name=x HTTP/1.0\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\nbody"}) {
    EXPECT_EQ(Answer(request),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 5\r\n"
              "Connection: close\r\n\r\npage\n");
  }
}

TEST(AnswerTo, EverythingElseIsRefusedWithoutMakingThePage) {
  const struct {
    std::string request;
    const char* answer;
  } rows[] = {
      {"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "},
      {"DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "},
      {"get /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
      {"GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
      {"GET /metrics\r\n\r\n", "HTTP/1.1 400 "},
      {"GET /metrics HTTP/2\r\n\r\n", "HTTP/1.1 400 "},
      {"\r\n\r\n", "HTTP/1.1 400 "},
      {std::string("\x16\x03\x01\0\r\n\r\n", 8), "HTTP/1.1 400 "},
      {std::string(kMostRequestBytes, 'x'), "HTTP/1.1 431 "},
  };
  for (const auto& [request, answer] : rows) {
    bool made = false;
    const auto answered = AnswerTo(request, [&] {
      made = true;
      return std::string();
    });
    ASSERT_TRUE(answered) << request;
    EXPECT_THAT(*answered, StartsWith(answer)) << request;
    EXPECT_THAT(*answered, HasSubstr("\r\nConnection: close\r\n")) << request;
    EXPECT_FALSE(made) << request;
  }
}

TEST(AnswerTo, APartOfARequestIsWaitedFor) {
  const std::string request = kGet;
  for (size_t length = 0; length < request.size(); ++length) {
    EXPECT_EQ(Answer(request.substr(0, length)), "nothing yet") << length;
  }
  EXPECT_EQ(Answer(std::string(kMostRequestBytes - 1, 'x')), "nothing yet");
}

class ScrapeServerTest : public testing::Test {
 protected:
  void Start(absl::Duration patience, size_t page_bytes = 5, const char* address = "127.0.0.1:0") {
    auto listener = ListenOnTcp("address", address, ScrapeServer::kMostConnections);
    ASSERT_TRUE(listener.ok()) << listener.status();
    address_ = AddressOf(*listener);
    server_ = ScrapeServer::Start(
        *std::move(listener), [page_bytes] { return std::string(page_bytes, 'p'); }, patience);
  }
  UniqueFd Connect() {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(address_.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return socket;
  }
  static void Say(const UniqueFd& socket, const std::string& text) {
    EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // All until its end, which is waited for.
  static std::string ReadAll(const UniqueFd& socket) {
    std::string all;
    char buffer[65536];
    for (ssize_t length = 1; length > 0;) {
      pollfd wait = {socket.get(), POLLIN, 0};
      if (::poll(&wait, 1, 30'000) != 1) return all + "(goes on)";
      length = ::read(socket.get(), buffer, sizeof buffer);
      if (length > 0) all.append(buffer, static_cast<size_t>(length));
    }
    return all;
  }

  SocketAddress address_;
  std::unique_ptr<ScrapeServer> server_;
};

TEST_F(ScrapeServerTest, ServesThePageToWhoeverAsksAndThenEndsTheConnection) {
  Start(ScrapeServer::kPatience);
  for (int i = 0; i < 3; ++i) {
    const UniqueFd socket = Connect();
    Say(socket, kGet);
    EXPECT_THAT(ReadAll(socket), EndsWith("\r\n\r\nppppp"));
  }
}

TEST_F(ScrapeServerTest, APageThatIsLargerThanAnyBufferArrivesWhole) {
  constexpr size_t kLarge = 16'000'000;
  Start(ScrapeServer::kPatience, kLarge);
  const UniqueFd socket = Connect();
  Say(socket, kGet);
  const std::string answer = ReadAll(socket);
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLarge);
}

TEST_F(ScrapeServerTest, WhoSaysNothingOrReadsNothingIsGivenUp) {
  Start(absl::Milliseconds(50), 64'000'000);
  const UniqueFd silent = Connect();
  const UniqueFd slow = Connect();
  Say(slow, "GET /metr");
  const UniqueFd unread = Connect();
  Say(unread, kGet);
  EXPECT_EQ(ReadAll(silent), "");
  EXPECT_EQ(ReadAll(slow), "");
  EXPECT_LT(ReadAll(unread).size(), 64'000'000u);
}

TEST_F(ScrapeServerTest, ManyWhoDoNothingKeepNobodyAway) {
  Start(absl::Hours(1));
  std::vector<UniqueFd> idle;
  for (size_t i = 0; i < 3 * ScrapeServer::kMostConnections; ++i) idle.push_back(Connect());
  const UniqueFd socket = Connect();
  Say(socket, kGet);
  EXPECT_THAT(ReadAll(socket), EndsWith("ppppp"));
  EXPECT_EQ(ReadAll(idle.front()), "");
}

TEST_F(ScrapeServerTest, EndsAtOnceWhoeverIsBeingServed) {
  Start(absl::Hours(1), 64'000'000);
  const UniqueFd silent = Connect();
  const UniqueFd unread = Connect();
  Say(unread, kGet);
  char byte = 0;
  ASSERT_EQ(::read(unread.get(), &byte, 1), 1);
  server_.reset();
  EXPECT_EQ(ReadAll(silent), "");
}

TEST_F(ScrapeServerTest, IsNotStartedWithoutADescriptorOrAThread) {
  const auto start = [] {
    auto listener = ListenOnTcp("address", "127.0.0.1:0", ScrapeServer::kMostConnections);
    const DescriptorShortage shortage;
    return ScrapeServer::Start(*std::move(listener), [] { return std::string(); });
  };
  EXPECT_EQ(start(), nullptr);
  const ThreadShortage shortage;
  Start(absl::Hours(1));
  EXPECT_EQ(server_, nullptr);
}

TEST_F(ScrapeServerTest, AtEveryAddressAScraperMayUseIpv4) {
  Start(absl::Hours(1), 5, "[::]:0");
  const UniqueFd socket = Connect();
  Say(socket, kGet);
  EXPECT_THAT(ReadAll(socket), EndsWith("ppppp"));
}

}  // namespace
}  // namespace rdmabroker
