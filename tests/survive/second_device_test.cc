// SPDX-License-Identifier: Apache-2.0

// Two devices of the kernel's: the one that RDMA_DEVICE names, on eth0, and another of the same kind on an interface of
// its own; what becomes of listeners and connections when addresses and MTUs change, and the broker dies of it. Makes
// and removes the second one, so it needs CAP_NET_ADMIN, and a machine of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/crash_points/armed_points.h"
#include "client/blocking.h"
#include "dataplane/testing/side.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/library_client.h"
#include "tests/survive/connected_pair.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

constexpr char kFirst[] = "eth0";
constexpr char kSecond[] = "second0";
constexpr char kFarEnd[] = "second1";
const IpAddress kOfSecond = *IpAddress::Parse("10.80.0.1");
const IpAddress kMoving = *IpAddress::Parse("10.79.0.1");

void Order(const std::vector<std::string>& command) { EXPECT_EQ(ChildProcess(command).End(), 0) << command[1]; }
void Give(const IpAddress& ip, const char* interface) {
  Order({"ip", "address", "add", ip.ToString() + "/24", "dev", interface});
}
void Take(const IpAddress& ip, const char* interface) {
  Order({"ip", "address", "delete", ip.ToString() + "/24", "dev", interface});
}

class SecondDevice : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
    kind_ = device_.substr(0, device_.find_first_of("0123456789"));
    second_ = kind_ + "9";
    Order({"ip", "link", "add", kSecond, "type", "veth", "peer", "name", kFarEnd});
    for (const char* end : {kSecond, kFarEnd}) Order({"ip", "link", "set", end, "up"});
    Give(kOfSecond, kSecond);
    Order({"rdma", "link", "add", second_, "type", kind_, "netdev", kSecond});
    ::setenv(kArmedPoints, armed_.path().c_str(), 1);
    broker_ = std::make_unique<KeptBroker>(KeptBroker::kGraceInGuests,
                                           std::vector<std::string>{"broker/rdma-brokerd-with-crash-points"});
    inspection_ = v1::Inspection::NewStub(broker_->channel());
    ASSERT_TRUE(Becomes([this] { return Find(device_).usable() && Find(second_).usable(); }));
  }
  void TearDown() override {
    if (second_.empty()) return;
    broker_ = nullptr;
    Order({"rdma", "link", "delete", second_});
    Order({"ip", "link", "delete", kSecond});
  }

  // Empty where there is none of that name, or no broker.
  v1::Device Find(const std::string& name) const {
    grpc::ClientContext context;
    v1::ListAdaptersReply reply;
    if (!inspection_->ListAdapters(&context, {}, &reply).ok()) return {};
    for (const v1::Device& device : reply.devices()) {
      if (device.name() == name) return device;
    }
    return {};
  }
  // Whether there is a listener that lacks its address.
  bool AnswersNowhere() const {
    grpc::ClientContext context;
    v1::ListListenersReply reply;
    EXPECT_TRUE(inspection_->ListListeners(&context, {}, &reply).ok());
    return std::ranges::any_of(reply.listeners(), [](const auto& listener) { return listener.answers_at().empty(); });
  }
  // Of the first connector that there is.
  v1::ExplainConnectorReply Explain() const {
    grpc::ClientContext listing, explaining;
    v1::ListConnectorsReply connectors;
    EXPECT_TRUE(inspection_->ListConnectors(&listing, {}, &connectors).ok());
    v1::ExplainConnectorRequest request;
    if (!connectors.connectors().empty()) request.set_connector_id(connectors.connectors(0).connector_id());
    v1::ExplainConnectorReply reply;
    EXPECT_TRUE(inspection_->ExplainConnector(&explaining, request, &reply).ok());
    return reply;
  }

  TemporaryFolder armed_;
  std::string kind_, device_, second_;
  std::unique_ptr<KeptBroker> broker_;
  std::unique_ptr<v1::Inspection::Stub> inspection_;
};

// By a peer on the device: it arrives at the adapter `at`, and is accepted by a queue pair of that alone.
void ExpectReached(client::BlockingListener& listener, const std::shared_ptr<client::Adapter>& at,
                   const std::shared_ptr<client::Adapter>& not_at, const std::string& control_socket,
                   const std::string& device) {
  DataSide side(at->data(), false, {});
  DataSide other(not_at->data(), false, {});
  std::promise<void> established;
  std::thread accepting([&] {
    const auto [arrived, connector] = listener.Next(absl::ToChronoMilliseconds(kTestPatience));
    ASSERT_TRUE(arrived.ok()) << arrived.hint;
    EXPECT_EQ(connector->adapter(), at);
    EXPECT_EQ(client::BlockingAccept(connector, other.qp, {}).status, NdkStatus::kInvalidParameterMix);
    const client::Outcome accepted = client::BlockingAccept(connector, side.qp, {});
    EXPECT_TRUE(accepted.ok()) << accepted.hint;
    established.get_future().wait();
    client::BlockingDisconnect(connector);
    client::BlockingClose(connector);
  });
  // Nobody listens there while the listener moves, and an iWARP device takes no queue pair that was refused.
  client::Outcome connected;
  EXPECT_TRUE(Becomes([&] {
    LibraryClient peer(control_socket, device);
    connected = peer.Connect(kMoving, listener.address());
    if (!connected.ok()) return false;
    established.set_value();
    peer.Disconnect();
    return true;
  })) << connected.hint;
  if (!connected.ok()) established.set_value();
  accepting.join();
}

// "" or where the broker dies when the listener moves.
class MovingListener : public SecondDevice, public testing::WithParamInterface<std::string> {};

TEST_P(MovingListener, IsReachedOnTheDeviceThatHasItsAddressAndConnectionsThereLiveOn) {
  Give(kMoving, kFirst);
  {
    ConnectedPair pair(*broker_, second_);
    ASSERT_NO_FATAL_FAILURE(pair.Connect(0));
    LibraryClient server(broker_->control_socket(), device_);
    const auto other = client::BlockingOpenAdapter(*server.session, second_);
    ASSERT_TRUE(other.outcome.ok()) << other.outcome.hint;
    std::unique_ptr<client::BlockingListener> listener;
    ASSERT_TRUE(Becomes([&] {
      listener = client::BlockingListener::Listen(server.adapter, {kMoving, 0}, {.any_adapter = true}).object;
      return listener != nullptr;
    }));
    ExpectReached(*listener, server.adapter, other.object, broker_->control_socket(), device_);
    const std::string point = armed_.path() + "/" + GetParam();
    Take(kMoving, kFirst);
    ASSERT_TRUE(Becomes([this] { return AnswersNowhere(); }));
    if (!GetParam().empty()) std::ofstream armed(point);
    Give(kMoving, kSecond);
    ExpectReached(*listener, other.object, server.adapter, broker_->control_socket(), second_);
    EXPECT_TRUE(GetParam().empty() || !std::filesystem::exists(point)) << "it has not died";
    ASSERT_NO_FATAL_FAILURE(pair.ExpectUntouched());
    pair.Close();
  }
  Take(kMoving, kSecond);
}

std::vector<std::string> Deaths() {
  const auto rebind =
      std::ranges::find_if(AllSteps(), [](const auto& step) { return step.before.ends_with("rebind"); });
  return {"", rebind->before, rebind->after};
}
INSTANTIATE_TEST_SUITE_P(Dying, MovingListener, testing::ValuesIn(Deaths()),
                         [](const auto& point) { return point.param.empty() ? "nowhere" : point.param; });

// On iWARP TCP sees to it.
TEST_F(SecondDevice, SaysOfAConnectionThatItsPortDoesNotCarryItsPacketsAnyMore) {
  const bool packets = kind_ != "siw";
  const auto set_mtu = [&](const char* mtu, uint32_t active) {
    for (const char* end : {kSecond, kFarEnd}) Order({"ip", "link", "set", end, "mtu", mtu});
    EXPECT_TRUE(Becomes([&] { return Find(second_).mtu() == (packets ? active : 0); }));
  };
  set_mtu("9000", 4096);
  ConnectedPair pair(*broker_, second_);
  ASSERT_NO_FATAL_FAILURE(pair.Connect(0));
  const v1::ExplainConnectorReply before = Explain();
  EXPECT_EQ(before.connector().path_mtu(), packets ? 4096 : 0);
  set_mtu("1500", 1024);
  const v1::ExplainConnectorReply after = Explain();
  EXPECT_EQ(after.connector().path_mtu(), before.connector().path_mtu());
  EXPECT_EQ(after.advice() != before.advice(), packets) << before.advice() << "\n" << after.advice();
  pair.Close();
}

}  // namespace
}  // namespace rdmabroker
