// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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
#include "broker/monitoring/metrics.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/loop_for_test.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "tests/control/connections.h"
#include "tests/control/raw_client.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

// A control socket whose connections keep the limits of what is written at a time, so that a client reads in one go
// what the broker has written in one.
class ControlSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = folder_.path() + "/control.sock";
    auto listener = ListenOnUnixSocket({.path = path, .type = SOCK_SEQPACKET, .mode = 0600, .group = {}});
    ASSERT_TRUE(listener.ok()) << listener.status();
    socket_ = std::make_unique<ControlSocket>(*std::move(listener), services_, accepting_, costs_, loop_, metrics_,
                                              ControlSocket::Settings());
    socket_->StartAccepting();
    client_ = std::make_unique<RawClient>(ConnectAs(::getuid(), ::getgid(), path, SOCK_SEQPACKET));
    client_->Flush();
    ASSERT_TRUE(RunUntil(loop_, [&] { return !client_->Receive().empty(); }));
    Settle();
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

}  // namespace
}  // namespace rdmabroker
