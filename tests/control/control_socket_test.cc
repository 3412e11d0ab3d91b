// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/health_service.h"
#include "broker/control/listening_socket.h"
#include "broker/control/services.h"
#include "broker/control/user_costs.h"
#include "broker/control/user_turns.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/loop_for_test.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "tests/control/connections.h"
#include "tests/control/patience.h"
#include "tests/control/raw_client.h"
#include "tests/control/stopped_clock.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

// A control socket whose connections keep the limits of what is written at a time, so that a client reads in one go
// what the broker has written in one.
class ControlSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    socket_ = std::make_unique<ControlSocket>(Listen("control.sock"), services_, accepting_, costs_, loop_, metrics_,
                                              ControlSocket::Settings());
    socket_->StartAccepting();
    client_ = std::make_unique<RawClient>(Connect("control.sock"));
    client_->Flush();
    ASSERT_TRUE(RunUntil(loop_, [&] { return !client_->Receive().empty(); }));
    Settle();
  }

  UniqueFd Listen(const std::string& name) const {
    auto listener =
        ListenOnUnixSocket({.path = folder_.path() + "/" + name, .type = SOCK_SEQPACKET, .mode = 0600, .group = {}});
    EXPECT_TRUE(listener.ok()) << listener.status();
    return *std::move(listener);
  }
  UniqueFd Connect(const std::string& name) const {
    return ConnectAs(::getuid(), ::getgid(), folder_.path() + "/" + name, SOCK_SEQPACKET);
  }
  // Returns once the accepting thread has accepted all who have connected, if the loop thread has room for them: it
  // does so before it is done with the second of these.
  void HaveAllAccepted() {
    std::atomic<int> came = 0;
    accepting_.Accept(Listen("another"), {.name = "another",
                                          .may_enter =
                                              [&](int) {
                                                ++came;
                                                return false;
                                              },
                                          .take = nullptr,
                                          .refused = [](uint64_t) {}});
    for (int i = 0; i < 2; ++i) {
      const UniqueFd client = Connect("another");
      EXPECT_TRUE(Becomes([&] { return came > i; }));
    }
  }
  // Runs turns until the client and the broker have nothing to say.
  void Settle() {
    while (loop_.RunTurn(Loop::Now()) || !client_->Receive().empty()) continue;
  }
  rpc::CallId Call(const std::string& method) {
    const rpc::CallId call = client_->Begin("/grpc.health.v1.Health/" + method);
    client_->Send(call, grpc::health::v1::HealthCheckRequest());
    client_->HalfClose(call);
    return call;
  }

  const TemporaryFolder folder_;
  const absl::Duration patience_ = absl::Hours(1);
  Loop loop_;
  Metrics metrics_;
  Services services_;
  HealthService health_{services_, loop_, patience_};
  UserCosts costs_{loop_, UserCosts::Bounds(), nullptr};
  AcceptingThread accepting_{loop_};
  std::unique_ptr<ControlSocket> socket_;
  std::unique_ptr<RawClient> client_;
};

TEST_F(ControlSocketTest, AllThatATurnHasToSayToAClientIsWrittenAtOnce) {
  std::vector<rpc::CallId> watches = {Call("Watch"), Call("Watch")};
  client_->Flush();
  Settle();
  for (const rpc::CallId watch : watches) EXPECT_EQ(client_->replies(watch).size(), 1u);
  std::vector<rpc::CallId> checks;
  for (int i = 0; i < 10; ++i) checks.push_back(Call("Check"));
  client_->Flush();
  health_.StopServing();
  EXPECT_TRUE(loop_.RunTurn(Loop::Now()));
  EXPECT_FALSE(client_->Receive().empty());
  for (const rpc::CallId check : checks) EXPECT_TRUE(client_->status(check).has_value());
  for (const rpc::CallId watch : watches) EXPECT_EQ(client_->replies(watch).size(), 2u);
  EXPECT_EQ(client_->Receive(), "");
}

TEST_F(ControlSocketTest, AUsersNewConnectionsWaitForItsTurns) {
  // Each counts as four requests.
  constexpr int kInATurn = UserTurns::kShare / 4;
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 2 * kInATurn; ++i) clients.push_back(Connect("control.sock"));
  HaveAllAccepted();
  // Turns have a bound in time, which must not be reached on a busy machine.
  const StoppedClock clock;
  // The broker's first words are there.
  const auto served = [&] {
    return std::count_if(clients.begin(), clients.end(), [](const UniqueFd& client) {
      char octet = 0;
      return ::recv(client.get(), &octet, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    });
  };
  for (const int all : {kInATurn, 2 * kInATurn}) {
    EXPECT_TRUE(loop_.RunTurn(Loop::Now()));
    EXPECT_EQ(served(), all);
  }
}

}  // namespace
}  // namespace rdmabroker
