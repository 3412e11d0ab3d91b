// SPDX-License-Identifier: Apache-2.0

#include "client/listener.h"

#include <gmock/gmock.h>

#include "client/reservation.h"
#include "client/testing/fixture.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {
namespace {

using testing::Contains;
using testing::ElementsAre;

class ListenerTest : public ClientTest {
 protected:
  ConnectEventCallback LogsConnect() {
    return [this](const std::shared_ptr<Connector>& connector) {
      connectors.push_back(connector);
      log.Add("connect " + connector->connection_data()->private_data);
    };
  }
  std::shared_ptr<Reservation> NewReservation() {
    const Later<std::shared_ptr<Reservation>> made;
    adapter->ReservePort(kSomeAddress,
                         [made](const Outcome&, std::shared_ptr<Reservation> r) { made.Set(std::move(r)); });
    return made.Get();
  }

  std::vector<std::shared_ptr<Connector>> connectors;  // Before the line in the log.
};

TEST_F(ListenerTest, ConnectEventsWaitForListensCompletion) {
  OpenSession();
  broker.On("Listen", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  const auto listener = NewListener(LogsConnect(), false);
  EXPECT_EQ(listener->GetLocalAddress(nullptr, nullptr), NdkStatus::kInvalidDeviceState);
  listener->Listen(kSomeAddress, Logs("listen"));
  const auto request = broker.WaitFor("Listen");
  broker.Emit(Broker::ConnectEvent(request.object, 900, "a"));
  broker.WaitForAcknowledgement(1);
  EXPECT_THAT(log.lines(), ElementsAre());
  Broker::Answer listening;
  listening.outcome.mutable_listening()->mutable_address()->set_ip(std::string("\0\0\0\0", 4));
  listening.outcome.mutable_listening()->mutable_address()->set_port(49152);
  broker.Release(request.request_id, listening);
  EXPECT_THAT(log.WaitFor(2), ElementsAre("listen STATUS_SUCCESS", "connect a"));
  EXPECT_EQ(listener->address()->port, 49152);
}

TEST_F(ListenerTest, PeersOfAListenThatFailedAreTurnedDown) {
  OpenSession();
  broker.On("Listen", [](const Broker::Request&) { return Broker::Pending(); });
  const auto listener = NewListener(LogsConnect(), false);
  listener->Listen(kSomeAddress, Logs("listen"));
  const auto request = broker.WaitFor("Listen");
  broker.Emit(Broker::ConnectEvent(request.object, 900, "a"));
  broker.EmitOutcome(request.request_id, Broker::Error(NdkStatus::kSharingViolation));
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, 900u);
  EXPECT_THAT(log.WaitFor(1), ElementsAre("listen STATUS_SHARING_VIOLATION"));
}

TEST_F(ListenerTest, TellsWhetherItsAddressIsThereOnceItListens) {
  const auto event = [](uint64_t listener, bool present) {
    v1::SessionEvent made;
    made.mutable_listener_address()->set_listener_id(listener);
    made.mutable_listener_address()->set_present(present);
    return made;
  };
  EXPECT_THAT(OpenSessionAndTakeGreeting().features(), Contains("listener-address-events"));
  broker.On("Listen", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  const Later<std::shared_ptr<Listener>> made;
  adapter->CreateListener(
      LogsConnect(), [this](bool present) { log.Add(present ? "there" : "gone"); },
      [made](const Outcome&, std::shared_ptr<Listener> listener) { made.Set(std::move(listener)); });
  const auto listener = made.Get();
  listener->Listen(kSomeAddress, {.await_address = true}, Logs("listen"));
  const auto request = broker.WaitFor("Listen");
  EXPECT_TRUE(request.As<v1::ListenRequest>().await_address());
  broker.Emit(event(request.object, true));
  broker.WaitForAcknowledgement(1);
  EXPECT_THAT(log.lines(), ElementsAre());
  Broker::Answer listening;
  *listening.outcome.mutable_listening()->mutable_address() = request.As<v1::ListenRequest>().address();
  broker.Release(request.request_id, listening);
  log.WaitFor(2);
  broker.Emit(event(request.object, false));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("listen STATUS_SUCCESS", "there", "gone"));
  // Who has not asked for such events is not disturbed by them.
  const auto other = NewListener(LogsConnect(), false);
  broker.Emit(event(request.object + 1, false));
  Settle();
}

TEST_F(ListenerTest, AConnectorThatIsDeliveredTwiceIsOne) {
  OpenSession();
  const auto listener = NewListener(LogsConnect());
  const uint64_t id = broker.WaitFor("Listen").object;
  broker.Emit(Broker::ConnectEvent(id, 900, "a"));
  broker.Emit(Broker::ConnectEvent(id, 900, "a"));
  broker.Emit(Broker::ConnectEvent(id, 901, "b"));
  EXPECT_THAT(log.WaitFor(2), ElementsAre("connect a", "connect b"));
}

TEST_F(ListenerTest, APeerThatHasReachedAnotherAdapterOfTheSessionIsTakenByAQueuePairOfThat) {
  OpenSession();
  const auto other = BlockingOpenAdapter(*session, "iwarp1").object;
  const Later<std::shared_ptr<Connector>> made;
  other->CreateConnector([made](const Outcome&, std::shared_ptr<Connector> c) { made.Set(std::move(c)); });
  EXPECT_EQ(made.Get()->adapter(), other);
  const uint64_t other_id = broker.WaitFor("CreateConnector").As<v1::CreateConnectorRequest>().adapter_id();
  const Later<std::shared_ptr<Connector>> arrived;
  const auto listener = NewListener([arrived](std::shared_ptr<Connector> c) { arrived.Set(std::move(c)); }, false);
  listener->Listen(kSomeAddress, {.any_adapter = true}, Logs("listen"));
  EXPECT_EQ(log.WaitFor(1), Lines{"listen STATUS_SUCCESS"});
  const auto listen = broker.WaitFor("Listen");
  EXPECT_TRUE(listen.As<v1::ListenRequest>().any_adapter());
  v1::SessionEvent event = Broker::ConnectEvent(listen.object, 900);
  event.mutable_connect()->set_adapter_id(other_id);
  broker.Emit(event);
  const std::shared_ptr<Connector> connector = arrived.Get();
  EXPECT_EQ(connector->adapter(), other);
  EXPECT_EQ(connector->Accept(qp, {}, {}, [](const Outcome&) {}), NdkStatus::kInvalidParameterMix);
  auto* const others = new FakeQueuePair(other->data());
  EXPECT_EQ(connector->Accept(others, {}, {}, Logs("accept")), NdkStatus::kPending);
  EXPECT_EQ(log.WaitFor(2).back(), "accept STATUS_SUCCESS");
  // Of an adapter that the session has not got.
  event = Broker::ConnectEvent(listen.object, 901);
  event.mutable_connect()->set_adapter_id(424242);
  broker.Emit(event);
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, 901u);
  session = nullptr;
  EXPECT_EQ(others->Close({}), NdkStatus::kSuccess) << "something holds the queue pair";
}

TEST_F(ListenerTest, AMalformedConnectEventIsTurnedDown) {
  OpenSession();
  const auto listener = NewListener(LogsConnect());
  v1::SessionEvent event = Broker::ConnectEvent(broker.WaitFor("Listen").object, 900);
  event.mutable_connect()->mutable_data()->mutable_peer()->set_ip("12345");
  broker.Emit(event);
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, 900u);
  broker.Emit(Broker::ConnectEvent(424242, 901));  // Of no listener.
  EXPECT_EQ(broker.WaitFor("CloseConnector", 2).object, 901u);
}

TEST_F(ListenerTest, APausedListenerTellsOfNobody) {
  OpenSession();
  const auto listener = NewListener(LogsConnect());
  listener->ControlConnectEvents(true);
  const auto paused = broker.WaitFor("ControlConnectEvents");
  EXPECT_TRUE(paused.As<v1::ControlConnectEventsRequest>().pause());
  broker.Emit(Broker::ConnectEvent(paused.object, 900, "a"));  // Was on its way.
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, 900u);
  listener->ControlConnectEvents(true);
  Settle();
  listener->ControlConnectEvents(false);
  EXPECT_FALSE(broker.WaitFor("ControlConnectEvents", 2).As<v1::ControlConnectEventsRequest>().pause());
  broker.Emit(Broker::ConnectEvent(paused.object, 901, "b"));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("connect b"));
}

TEST_F(ListenerTest, AClosedListenerTurnsPeersDownAndWaitsForTheConnectorsItDelivered) {
  OpenSession();
  broker.On("CloseListener", [](const Broker::Request&) { return Broker::Pending(); });
  const auto listener = NewListener(LogsConnect());
  const uint64_t id = broker.WaitFor("Listen").object;
  broker.Emit(Broker::ConnectEvent(id, 900, "a"));
  log.WaitFor(1);
  listener->Close(LogsClose("listener closed"));
  const auto close = broker.WaitFor("CloseListener");
  broker.Emit(Broker::ConnectEvent(id, 901, "b"));
  EXPECT_EQ(broker.WaitFor("CloseConnector").object, 901u);
  // Its connector works on.
  Later<Outcome> accepted;
  connectors[0]->Accept(qp, {}, {}, [accepted](const Outcome& outcome) { accepted.Set(outcome); });
  EXPECT_TRUE(accepted.Get().ok());
  // The close's outcome may overtake the reply of the connector's.
  broker.On("CloseConnector", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  connectors[0]->Close(LogsClose("connector closed"));
  const auto last = broker.WaitFor("CloseConnector", 2);
  broker.EmitOutcome(close.request_id, {});
  broker.WaitForAcknowledgement(3);
  Settle();
  EXPECT_THAT(log.lines(), ElementsAre("connect a"));
  broker.Release(last.request_id, Broker::Success());
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect a", "connector closed", "listener closed"));
}

TEST_F(ListenerTest, AfterCloseNoConnectEventBegins) {
  OpenSession();
  broker.On("Listen", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  const Later<std::shared_ptr<Listener>> made;
  const auto listener = NewListener(
      [this, made](const std::shared_ptr<Connector>& connector) {
        made.Get()->Close(LogsClose("closed"));
        connector->Close({});
      },
      false);
  made.Set(listener);
  listener->Listen(kSomeAddress, Logs("listen"));
  const auto request = broker.WaitFor("Listen");
  broker.Emit(Broker::ConnectEvent(request.object, 900));
  broker.Emit(Broker::ConnectEvent(request.object, 901));  // Would wait for made a second time, and fail.
  broker.WaitForAcknowledgement(2);
  Broker::Answer listening;
  listening.outcome.mutable_listening()->mutable_address()->set_ip(std::string("\x7f\0\0\1", 4));
  broker.Release(request.request_id, listening);
  EXPECT_THAT(log.WaitFor(2), ElementsAre("listen STATUS_SUCCESS", "closed"));
  broker.WaitFor("CloseConnector", 2);
}

TEST_F(ListenerTest, AReservationIsUsedUpBySuccessAndFreeAfterAFailure) {
  OpenSession();
  const auto reservation = NewReservation();
  EXPECT_EQ(reservation->address().port, 50000);
  broker.On("Listen", [](const Broker::Request&) { return Broker::Failure(NdkStatus::kNoMemory); });
  const auto listener = NewListener(LogsConnect(), false);
  listener->Listen(reservation, Logs("first"));
  log.WaitFor(1);
  broker.On("Listen", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  listener->Listen(reservation, Logs("second"));
  const auto listen = broker.WaitFor("Listen", 2);
  EXPECT_EQ(listen.As<v1::ListenRequest>().reservation_id(),
            broker.WaitFor("Listen").As<v1::ListenRequest>().reservation_id());
  // Its close waits to see whether there is something to release.
  reservation->Close(LogsClose("reservation closed"));
  Settle();
  EXPECT_EQ(log.lines().size(), 1u);
  Broker::Answer listening;
  listening.outcome.mutable_listening()->mutable_address()->set_ip(std::string("\x7f\0\0\1", 4));
  broker.Release(listen.request_id, listening);
  log.WaitFor(3);
  for (const auto& request : broker.requests()) EXPECT_NE(request.method, "ReleasePort");
  BlockingClose(NewReservation());
  broker.WaitFor("ReleasePort");
}

TEST_F(ListenerTest, TheBlockingFormQueuesPeersAndWakesAtTheSessionsEnd) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(300); });
  auto [outcome, listener] = BlockingListener::Listen(adapter, kSomeAddress);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(listener->Next(std::chrono::milliseconds(1)).outcome.status, NdkStatus::kIoTimeout);
  const uint64_t id = broker.WaitFor("Listen").object;
  broker.Emit(Broker::ConnectEvent(id, 900, "a"));
  broker.Emit(Broker::ConnectEvent(id, 901, "b"));
  EXPECT_EQ(listener->Next().object->connection_data()->private_data, "a");
  EXPECT_EQ(listener->Next().object->connection_data()->private_data, "b");
  broker.Die();
  EXPECT_EQ(listener->Next().outcome.status, NdkStatus::kConnectionDisconnected);
}

TEST_F(ListenerTest, TheBlockingFormReportsAFailedListen) {
  OpenSession();
  broker.On("Listen", [](const Broker::Request&) { return Broker::Failure(NdkStatus::kSharingViolation, "4420"); });
  const auto made = BlockingListener::Listen(adapter, kSomeAddress);
  EXPECT_EQ(made.outcome.status, NdkStatus::kSharingViolation);
  EXPECT_EQ(made.outcome.hint, "4420");
  EXPECT_EQ(made.object, nullptr);
  broker.WaitFor("CloseListener");
}

}  // namespace
}  // namespace rdmabroker::client
