// SPDX-License-Identifier: Apache-2.0

// A client's listener, shared endpoint and reservation over user-space iWARP, whose address comes and goes as those of
// a network that boots or fails over do.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/reservation.h"
#include "client/shared_endpoint.h"
#include "tests/integration/interface.h"
#include "tests/integration/library_client.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker {
namespace {

// A label of the loopback interface's, with an address of its own.
constexpr char kLabel[] = "lo:1";
const IpAddress kMoving = *IpAddress::Parse("10.77.0.1");
const IpAddress kStaying = *IpAddress::Parse("127.0.0.1");

// What comes next, from the session's thread to the test's.
template <typename Value>
class Next {
 public:
  void Set(Value value) { promise_.set_value(std::move(value)); }
  Value Await() {
    Value value = promise_.get_future().get();
    promise_ = {};
    return value;
  }

 private:
  std::promise<Value> promise_;
};

class MovingAddress : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(in_the_way_, ""); }

  client::Outcome Listen(const client::ListenOptions& options) {
    auto made = std::make_shared<std::promise<std::shared_ptr<client::Listener>>>();
    if (listener_ == nullptr) {
      server_.adapter->CreateListener(
          [this](std::shared_ptr<client::Connector> connector) { peers_.Set(std::move(connector)); },
          [this](bool present) { news_.Set(present); },
          [made](const client::Outcome&, std::shared_ptr<client::Listener> listener) { made->set_value(listener); });
      listener_ = made->get_future().get();
    }
    Next<client::Outcome> outcome;
    listener_->Listen({kMoving, 0}, options, [&](const client::Outcome& ended) { outcome.Set(ended); });
    return outcome.Await();
  }
  // Whether a peer's request reaches the listener, which turns it down.
  bool IsReached() {
    LibraryClient peer(broker_.control_socket());
    auto connect = std::async(std::launch::async, [&] { return peer.Connect(kStaying, *listener_->address()); });
    const std::shared_ptr<client::Connector> connector = peers_.Await();
    client::BlockingReject(connector, "");
    client::BlockingClose(connector);
    return connect.get().status == NdkStatus::kConnectionRefused;
  }

  const std::string in_the_way_ = EnterOwnNamespaces();  // Before there are threads.
  RunningBroker broker_;
  LibraryClient server_{broker_.control_socket()};
  std::shared_ptr<client::Listener> listener_;
  Next<std::shared_ptr<client::Connector>> peers_;
  Next<bool> news_;
};

TEST_F(MovingAddress, IsAwaitedAndFollowed) {
  const client::Outcome refused = Listen({});
  EXPECT_EQ(refused.status, NdkStatus::kInvalidAddress);
  EXPECT_TRUE(refused.retryable);
  const client::Outcome listening = Listen({.await_address = true});
  ASSERT_TRUE(listening.ok()) << listening.hint;
  ASSERT_EQ(listener_->address()->ip, kMoving);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(SetAddress(kLabel, kMoving.ToString())) << std::strerror(errno);
    EXPECT_TRUE(news_.Await());
    EXPECT_TRUE(IsReached());
    ASSERT_TRUE(LowerInterface(kLabel)) << std::strerror(errno);
    EXPECT_FALSE(news_.Await());
  }
}

TEST_F(MovingAddress, IsFollowedByWhatHoldsIt) {
  const client::Outcome listening = Listen({.await_address = true});
  ASSERT_TRUE(listening.ok()) << listening.hint;
  ASSERT_TRUE(SetAddress(kLabel, kMoving.ToString())) << std::strerror(errno);
  EXPECT_TRUE(news_.Await());
  const auto endpoint = client::BlockingCreateSharedEndpoint(server_.adapter, {kMoving, 0});
  const auto reservation = client::BlockingReservePort(server_.adapter, {kMoving, 0});
  ASSERT_TRUE(endpoint.object != nullptr && reservation.object != nullptr) << endpoint.outcome.hint;
  Next<bool> of_endpoint, of_reservation;
  endpoint.object->OnAddressEvent([&](bool present) { of_endpoint.Set(present); });
  reservation.object->OnAddressEvent([&](bool present) { of_reservation.Set(present); });
  for (const bool present : {false, true}) {
    ASSERT_TRUE(present ? SetAddress(kLabel, kMoving.ToString()) : LowerInterface(kLabel)) << std::strerror(errno);
    EXPECT_EQ(news_.Await(), present);
    EXPECT_EQ(of_endpoint.Await(), present);
    EXPECT_EQ(of_reservation.Await(), present);
  }
  client::BlockingClose(endpoint.object);
  client::BlockingClose(reservation.object);
}

}  // namespace
}  // namespace rdmabroker
