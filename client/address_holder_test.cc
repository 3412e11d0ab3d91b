// SPDX-License-Identifier: Apache-2.0

// The events about the addresses that shared endpoints and reservations hold.

#include "client/address_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "client/reservation.h"
#include "client/shared_endpoint.h"
#include "client/testing/fixture.h"

namespace rdmabroker::client {
namespace {

using testing::Contains;
using testing::ElementsAre;

class AddressHolderTest : public ClientTest, public testing::WithParamInterface<ObjectKind> {
 protected:
  std::shared_ptr<AddressHolder> NewHolder() {
    const Later<std::shared_ptr<AddressHolder>> made;
    const auto keep = [made](const Outcome&, std::shared_ptr<AddressHolder> holder) { made.Set(std::move(holder)); };
    if (GetParam() == ObjectKind::kReservation) {
      adapter->ReservePort(kSomeAddress, keep);
    } else {
      adapter->CreateSharedEndpoint(kSomeAddress, keep);
    }
    return made.Get();
  }
  // Sends the event about the object with that id.
  void Emit(uint64_t id, bool present) {
    v1::SessionEvent event;
    v1::EndpointAddressEvent& changed = *event.mutable_endpoint_address();
    changed.set_present(present);
    GetParam() == ObjectKind::kReservation ? changed.set_reservation_id(id) : changed.set_shared_endpoint_id(id);
    broker.Emit(event);
  }
  AddressEventCallback LogsAddress() {
    return [this](bool present) { log.Add(present ? "there" : "gone"); };
  }

  // The broker's first object is the adapter.
  static constexpr uint64_t kFirst = Broker::kFirstObject + 1, kSecond = kFirst + 1;
};

TEST_P(AddressHolderTest, TellsWhetherItsAddressIsThere) {
  EXPECT_THAT(OpenSessionAndTakeGreeting().features(), Contains("endpoint-address-events"));
  const auto holder = NewHolder();
  const auto other = NewHolder();
  EXPECT_EQ(holder->OnAddressEvent(LogsAddress()), NdkStatus::kSuccess);
  Emit(kSecond, false);
  Emit(kFirst, false);
  Emit(kFirst, true);
  EXPECT_THAT(log.WaitFor(2), ElementsAre("gone", "there"));
}

TEST_P(AddressHolderTest, TellsAtOnceThatItsAddressHasGone) {
  OpenSession();
  const auto holder = NewHolder();
  Emit(kFirst, false);
  broker.WaitForAcknowledgement(1);
  EXPECT_EQ(holder->OnAddressEvent(LogsAddress()), NdkStatus::kSuccess);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("gone"));
  EXPECT_EQ(holder->OnAddressEvent(nullptr), NdkStatus::kSuccess);
  Emit(kFirst, true);
  broker.WaitForAcknowledgement(2);
  EXPECT_EQ(holder->OnAddressEvent(LogsAddress()), NdkStatus::kSuccess);
  Settle();
  EXPECT_THAT(log.lines(), ElementsAre("gone"));
}

TEST_P(AddressHolderTest, LetsItsCallbackGoWithItsClose) {
  OpenSession();
  auto holder = NewHolder();
  const std::weak_ptr<AddressHolder> held = holder;
  const Later<bool> gone;
  holder->OnAddressEvent([holder, gone](bool) { gone.Set(true); });
  Emit(kFirst, false);
  gone.Get();
  EXPECT_EQ(BlockingClose(holder), NdkStatus::kSuccess);
  holder = nullptr;
  Settle();
  EXPECT_TRUE(held.expired());
}

TEST_P(AddressHolderTest, SaysNothingOnceItsCloseIsCalled) {
  OpenSession();
  const auto holder = NewHolder();
  holder->OnAddressEvent(LogsAddress());
  const bool reserves = GetParam() == ObjectKind::kReservation;
  broker.On(reserves ? "ReleasePort" : "CloseSharedEndpoint", [](const Broker::Request&) {
    return Broker::Answer{Broker::Answer::Kind::kHold, {}};
  });
  holder->Close(LogsClose("closed"));
  EXPECT_EQ(holder->OnAddressEvent(LogsAddress()), NdkStatus::kInvalidDeviceState);
  const auto close = broker.WaitFor(reserves ? "ReleasePort" : "CloseSharedEndpoint");
  Emit(kFirst, false);
  broker.WaitForAcknowledgement(1);
  broker.Release(close.request_id, {});
  EXPECT_THAT(log.WaitFor(1), ElementsAre("closed"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, AddressHolderTest,
                         testing::Values(ObjectKind::kSharedEndpoint, ObjectKind::kReservation), [](const auto& info) {
                           return info.param == ObjectKind::kReservation ? "Reservation" : "SharedEndpoint";
                         });

}  // namespace
}  // namespace rdmabroker::client
