// SPDX-License-Identifier: Apache-2.0

// The objects of a session closed in every order.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "client/reservation.h"
#include "client/shared_endpoint.h"
#include "client/testing/fixture.h"

namespace rdmabroker::client {
namespace {

enum Position { kAdapter, kListener, kAccepted, kSharedEndpoint, kConnector, kReservation, kCount };
constexpr std::array<const char*, kCount> kNames = {"adapter",         "listener",  "accepted connector",
                                                    "shared endpoint", "connector", "reservation"};
// Whose close waits for whose.
constexpr std::pair<Position, Position> kWaits[] = {
    {kAdapter, kListener},    {kAdapter, kAccepted},  {kAdapter, kSharedEndpoint},  {kAdapter, kConnector},
    {kAdapter, kReservation}, {kListener, kAccepted}, {kSharedEndpoint, kConnector}};

class CloseOrderTest : public ClientTest {
 protected:
  using Objects = std::array<std::shared_ptr<BrokerObject>, kCount>;

  // One of each, both connectors with an established connection.
  Objects Make(FakeQueuePair* accepting, FakeQueuePair* connecting) {
    const Later<std::shared_ptr<Connector>> delivered;
    const auto listener = NewListener([delivered](std::shared_ptr<Connector> c) { delivered.Set(std::move(c)); });
    ++listens_;
    broker.Emit(Broker::ConnectEvent(broker.WaitFor("Listen", listens_).object, 1'000'000 + listens_));
    const auto accepted = delivered.Get();
    EXPECT_TRUE(BlockingAccept(accepted, accepting, {}).ok());
    const Later<std::shared_ptr<SharedEndpoint>> endpoint_made;
    adapter->CreateSharedEndpoint(kSomeAddress, [endpoint_made](const Outcome&, std::shared_ptr<SharedEndpoint> made) {
      endpoint_made.Set(std::move(made));
    });
    const auto endpoint = endpoint_made.Get();
    const auto connector = NewConnector();
    const Later<Outcome> connected;
    const Later<Outcome> completed;
    connector->ConnectWithSharedEndpoint(connecting, endpoint, {.destination = kSomeAddress},
                                         [connected](const Outcome& outcome) { connected.Set(outcome); });
    EXPECT_TRUE(connected.Get().ok());
    connector->CompleteConnect({}, [completed](const Outcome& outcome) { completed.Set(outcome); });
    EXPECT_TRUE(completed.Get().ok());
    const Later<std::shared_ptr<Reservation>> reserved;
    adapter->ReservePort(
        kSomeAddress, [reserved](const Outcome&, std::shared_ptr<Reservation> made) { reserved.Set(std::move(made)); });
    return {adapter, listener, accepted, endpoint, connector, reserved.Get()};
  }

  void CloseInOrder(const std::array<Position, kCount>& order) {
    auto opened = BlockingOpenAdapter(*session, "iwarp0");
    ASSERT_TRUE(opened.outcome.ok()) << opened.outcome.hint;
    adapter = std::move(opened.object);
    auto* const accepting = new FakeQueuePair(adapter->data());
    auto* const connecting = new FakeQueuePair(adapter->data());
    const Objects objects = Make(accepting, connecting);
    Log closed;
    std::string called;
    for (const Position position : order) {
      const std::string name = kNames[position];
      called += (called.empty() ? "" : ", ") + name;
      EXPECT_EQ(objects[position]->Close(ExactlyOnce(name, [&closed, name] { closed.Add(name); })),
                NdkStatus::kPending);
    }
    const auto lines = closed.WaitFor(kCount);
    ASSERT_EQ(lines.size(), static_cast<size_t>(kCount)) << called;
    for (const auto& [later, earlier] : kWaits) {
      EXPECT_LT(std::find(lines.begin(), lines.end(), kNames[earlier]),
                std::find(lines.begin(), lines.end(), kNames[later]))
          << "closed in the order " << called;
    }
    EXPECT_EQ(accepting->Close({}), NdkStatus::kSuccess) << called;
    EXPECT_EQ(connecting->Close({}), NdkStatus::kSuccess) << called;
  }

  void CloseInEveryOrder() {
    std::array<Position, kCount> order = {kAdapter, kListener, kAccepted, kSharedEndpoint, kConnector, kReservation};
    do {
      ASSERT_NO_FATAL_FAILURE(CloseInOrder(order));
    } while (std::next_permutation(order.begin(), order.end()));
  }

 private:
  size_t listens_ = 0;
};

TEST_F(CloseOrderTest, AnyOrderClosesEverythingOnceAndSuccessorsFirst) {
  OpenSession();
  CloseInEveryOrder();
}

TEST_F(CloseOrderTest, LikewiseWhereTheBrokersClosesArePending) {
  OpenSession();
  for (const char* close : {"CloseAdapter", "CloseListener", "CloseSharedEndpoint", "CloseConnector", "ReleasePort"}) {
    broker.On(close, [this](const Broker::Request& request) {
      broker.EmitOutcome(request.request_id, {});
      return Broker::Pending();
    });
  }
  CloseInEveryOrder();
}

}  // namespace
}  // namespace rdmabroker::client
