// SPDX-License-Identifier: Apache-2.0

// What clients can make the broker write into its log: a flood of what is refused must not fill it.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/captured_log.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() {
    configuration_.connections_per_uid = 8;
    configuration_.patience = absl::Minutes(1);  // With connections on which nobody says anything.
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1)}, configuration_);
  }
  ~LogTest() override { daemon_.reset(); }

  // The same warning a hundred times is a few lines, and a later one tells of those left out.
  void ExpectBounded(const std::string& warning, const std::function<void()>& provoke) {
    SCOPED_TRACE(warning);
    constexpr int kRefusals = 100;
    const absl::Time start = absl::Now();
    for (int i = 0; i < kRefusals; ++i) provoke();
    EXPECT_TRUE(Becomes([&] { return !log_.LinesWith(warning).empty(); }));
    const auto most = static_cast<size_t>(absl::ToInt64Seconds(absl::Now() - start)) + 1;
    EXPECT_LE(log_.LinesWith(warning).size(), most);
    EXPECT_TRUE(Becomes([&] {
      provoke();
      const auto lines = log_.LinesWith(warning);
      return lines.size() > 1 && lines.back().find(" left_out=0") == std::string::npos;
    }));
  }

  CapturedLog log_;
  NetworkThread network_;
  Configuration configuration_ = TestConfiguration();
  std::unique_ptr<TestDaemon> daemon_;
};

TEST_F(LogTest, RefusedSessionsDoNotFillIt) {
  auto stub = v1::Broker::NewStub(NewChannel(daemon_->target()));
  v1::SessionRequest resume;
  resume.mutable_resume()->set_api_minor(1);
  resume.mutable_resume()->set_session_id(4711);
  resume.mutable_resume()->set_session_secret(std::string(16, 'x'));
  ExpectBounded("session refused", [&] {
    grpc::ClientContext context;
    Limit(context);
    auto stream = stub->Session(&context);
    stream->Write(resume);
    v1::SessionReply reply;
    EXPECT_FALSE(stream->Read(&reply));
    EXPECT_EQ(NdkStatusOf(stream->Finish()), NdkStatus::kAccessDenied);
  });
}

TEST_F(LogTest, RefusedHandOffsDoNotFillIt) {
  ExpectBounded("hand-off refused", [&] {
    const UniqueFd socket = ConnectAs(::getuid(), ::getgid(), daemon_->handoff_path(), SOCK_SEQPACKET);
    EXPECT_EQ(::send(socket.get(), "nonsense", 8, MSG_NOSIGNAL), 8);
    char reply[1024];
    EXPECT_GT(::recv(socket.get(), reply, sizeof reply, 0), 0);
  });
}

TEST_F(LogTest, RefusedConnectionsDoNotFillIt) {
  std::vector<UniqueFd> open;
  for (uint32_t i = 0; i < configuration_.connections_per_uid; ++i) {
    open.push_back(ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM));
    char greeting = 0;
    ASSERT_EQ(::read(open.back().get(), &greeting, 1), 1);
  }
  ExpectBounded("connection refused", [&] {
    const UniqueFd refused = ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM);
    char byte = 0;
    EXPECT_EQ(::read(refused.get(), &byte, 1), 0);
  });
}

}  // namespace
}  // namespace rdmabroker
