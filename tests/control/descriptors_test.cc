// SPDX-License-Identifier: Apache-2.0

// Descriptors that run out, and numbers that are used again: whose call it is must not get mixed up. The process has
// few numbers, so that both happen soon.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/captured_log.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/patience.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

// For the broker and its clients, which are in one process; so few that their numbers are used again and again.
constexpr rlim_t kFewDescriptors = 256;

void LimitDescriptors(rlim_t most) {
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = most;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

class DescriptorsTest : public testing::Test {
 protected:
  DescriptorsTest() { LimitDescriptors(kFewDescriptors); }

  // The uids that the sessions belong to which a caller sees.
  static std::vector<uint32_t> SeenUids(const std::shared_ptr<grpc::Channel>& channel) {
    auto inspection = v1::Inspection::NewStub(channel);
    grpc::ClientContext context;
    Limit(context);
    v1::ListSessionsReply reply;
    EXPECT_TRUE(inspection->ListSessions(&context, v1::ListSessionsRequest(), &reply).ok());
    std::vector<uint32_t> uids;
    for (const v1::SessionInfo& session : reply.sessions()) uids.push_back(session.uid());
    return uids;
  }

  NetworkThread network_;
};

TEST_F(DescriptorsTest, NoCallIsTakenForAnotherUsersWhenNumbersAreUsedAgain) {
  TestDaemon daemon(network_);
  constexpr uid_t kUids[] = {54321, 54322};
  std::vector<std::unique_ptr<TestClient>> owners;
  for (const uid_t uid : kUids) {
    UniqueFd socket = ConnectAs(uid, uid, daemon.control_path(), SOCK_STREAM);
    if (!socket) GTEST_SKIP() << "needs a root that may become other users";
    owners.push_back(std::make_unique<TestClient>(ChannelOver(std::move(socket))));
    ASSERT_EQ(owners.back()->Open(), NdkStatus::kSuccess);
  }
  std::atomic<int> connections = 0;
  std::atomic<int> wrong = 0;
  // Each number is used several times, or this shows nothing.
  constexpr int kEnough = 2 * static_cast<int>(kFewDescriptors);
  const absl::Time end = absl::Now() + kTestPatience;
  std::vector<std::thread> threads;
  for (const uid_t uid : kUids) {
    threads.emplace_back([&, uid] {
      for (int round = 0; connections < kEnough && absl::Now() < end; ++round) {
        const auto channel = ChannelAs(uid, daemon.control_path());
        ++connections;
        // Some leave with a call under way.
        if (round % 3 == 0) {
          auto stub = v1::Broker::NewStub(channel);
          grpc::ClientContext context;
          auto stream = stub->Session(&context);
          v1::SessionRequest open;
          open.mutable_open()->set_api_minor(1);
          stream->Write(open);
          context.TryCancel();
          stream->Finish();
          continue;
        }
        for (const uint32_t seen : SeenUids(channel)) wrong += seen != uid;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d connections, %d wrong callers\n", connections.load(), wrong.load());
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(connections, kEnough);
  for (size_t i = 0; i < owners.size(); ++i) EXPECT_NE(owners[i]->OpenAdapter("fake1"), 0u);
}

TEST_F(DescriptorsTest, ABrokerWithoutAnyLeftRestsAndServesOnOnceThereAreSome) {
  CapturedLog log;
  TestDaemon daemon(network_);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, daemon.control_path().c_str(), daemon.control_path().size() + 1);
  const absl::Time begin = absl::Now();
  LimitDescriptors(3);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto warnings = [&] { return log.LinesWith("cannot accept socket=control.sock"); };
  EXPECT_TRUE(Becomes([&] { return warnings().size() >= 2; }));
  // It tries ten times a second, not as fast as it can, and says once a second how often.
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  EXPECT_GE(seconds, 0.9);
  const std::string second = warnings().at(1);
  const size_t number = second.find("left_out=");
  ASSERT_NE(number, std::string::npos) << second;
  const int left_out = std::atoi(second.c_str() + number + 9);
  EXPECT_GE(left_out, 1) << second;
  EXPECT_LE(left_out, 10 * seconds + 1) << second;
  LimitDescriptors(kFewDescriptors);
  // HTTP/2's greeting.
  char byte = 0;
  EXPECT_EQ(::read(socket.get(), &byte, 1), 1);
  TestClient client(NewChannel(daemon.target()));
  EXPECT_EQ(client.Open(), NdkStatus::kSuccess);
}

}  // namespace
}  // namespace rdmabroker
