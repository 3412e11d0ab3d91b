// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/session.h"
#include "tests/conformance/misuse/shortage.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {
namespace {

using client::Outcome;
using ndkpi::Connection;
using ndkpi::Handshake;
using ndkpi::TestListener;
using ndkpi::World;

void Close(const std::shared_ptr<client::BrokerObject>& object) {
  EXPECT_NE(object, nullptr);
  if (object != nullptr) client::BlockingClose(object);
}

constexpr char kPrivateData[] = "text that does not fit into a string without memory";

// A listener of b's that accepts whoever comes, and disconnects when its peer does.
class Acceptor {
 public:
  explicit Acceptor(World& w) : b_(w.b()), listener_(b_.Listening()) {
    listener_.Handle([this](const std::shared_ptr<client::Connector>& passive) {
      passives_.push_back(passive);
      passive->Accept(
          b_.NewQueuePair(), {},
          [passive](const client::DisconnectEvent&) { passive->Disconnect([](const Outcome&) {}); },
          [this](const Outcome&) { ended_.release(); });
    });
  }
  ~Acceptor() {
    const ndkpi::Call closing = b_.Close(listener_.object);  // Waits for those that it has delivered.
    for (const auto& passive : passives_) Close(passive);
    closing.Wait();
  }
  SocketAddress address() const { return listener_.address; }
  void AwaitAccept() { EXPECT_TRUE(ended_.try_acquire_for(kPatience)) << "nobody is accepted"; }

 private:
  ndkpi::Party& b_;
  const TestListener listener_;
  std::vector<std::shared_ptr<client::Connector>> passives_;
  std::counting_semaphore<> ended_{0};  // Accepts, however they ended.
};

// A connector of a's that connects, and completes when it is accepted.
class Initiator {
 public:
  Initiator(World& w, const SocketAddress& destination) : connector_(w.a().NewConnector()) {
    const client::ConnectParameters parameters = {.source = w.a().At(), .destination = destination};
    connector_->Connect(w.a().NewQueuePair(), parameters, [connector = connector_](const Outcome& outcome) {
      if (outcome.ok()) connector->CompleteConnect({}, [](const Outcome&) {});
    });
  }
  ~Initiator() { Close(connector_); }

 private:
  const std::shared_ptr<client::Connector> connector_;
};

template <typename Object>
void PlayAddress(Play& play, const Object& object, NdkStatus (Object::*get)(sockaddr*, uint32_t*) const) {
  sockaddr_storage address;
  uint32_t length = 0;
  play([&] { return (object.*get)(reinterpret_cast<sockaddr*>(&address), &length); }, [&] { length = sizeof address; });
}

const Row kRows[] = {
    {"Session.Open",
     [](World& w, Play& play) {
       const std::string socket = w.broker().control_socket();
       client::SessionOptions options;
       client::Session::Opening opening;
       play(
           [&] {
             opening = client::Session::Open(std::move(options));
             return opening.outcome.status;
           },
           [&] { (options = {}).control_socket = socket; });
       EXPECT_NE(opening.session, nullptr);
     }},
    {"Session.Close",
     [](World& w, Play& play) {
       client::SessionOptions options;
       options.control_socket = w.broker().control_socket();
       const auto opening = client::Session::Open(std::move(options));
       Told<> closed;
       play([&] { return opening.session->Close(closed.called()); });
       closed.Wait();
     }},
    {"Session.ListAdapters",
     [](World& w, Play& play) {
       std::binary_semaphore told{0};
       play([&] { return w.a().session().ListAdapters([&](const auto&, const auto&) { told.release(); }); });
       EXPECT_TRUE(told.try_acquire_for(kPatience));
     }},
    {"Session.OpenAdapter",
     [](World& w, Play& play) {
       Told<client::Adapter> told;
       play([&] { return w.a().session().OpenAdapter(w.on().device, kNdkVersion, {}, told.created()); });
       Close(told.Wait());
     }},
    {"BrokerObject.Close",
     [](World& w, Play& play) {
       const auto connector = w.a().NewConnector();
       Told<> closed;
       play([&] { return connector->Close(closed.called()); });
       closed.Wait();
     }},
    {"BrokerObject.OnSessionEnd",
     [](World& w, Play& play) {
       const auto connector = w.a().NewConnector();
       play([&] { return connector->OnSessionEnd([](NdkStatus) {}); });
       Close(connector);
     }},
    {"Extensible.QueryExtension",
     [](World& w, Play& play) {
       // There is none, whatever is short.
       play([&] {
         const void* functions = nullptr;
         const NdkStatus status = w.a().adapter()->QueryExtension({}, kNdkVersion, &functions);
         return status == NdkStatus::kNotSupported ? NdkStatus::kSuccess : status;
       });
     }},
    {"Adapter.QueryInfo",
     [](World& w, Play& play) {
       AdapterInfo info;
       size_t size = sizeof info;
       play([&] { return w.a().adapter()->QueryInfo(&info, &size); });
     }},
    {"Adapter.CreateListener",
     [](World& w, Play& play) {
       Told<client::Listener> told;
       play([&] { return w.a().adapter()->CreateListener([](const auto&) {}, told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateSharedEndpoint",
     [](World& w, Play& play) {
       Told<client::SharedEndpoint> told;
       play([&] { return w.a().adapter()->CreateSharedEndpoint(w.a().At(), told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateSharedEndpoint(Reservation)",
     [](World& w, Play& play) {
       const auto reservation = w.a().NewReservation(w.a().At());
       Told<client::SharedEndpoint> told;
       play([&] { return w.a().adapter()->CreateSharedEndpoint(reservation, told.created()); });
       Close(told.Wait());
       Close(reservation);
     }},
    {"Adapter.ReservePort",
     [](World& w, Play& play) {
       Told<client::Reservation> told;
       play([&] { return w.a().adapter()->ReservePort(w.a().At(), told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateConnector",
     [](World& w, Play& play) {
       Told<client::Connector> told;
       play([&] { return w.a().adapter()->CreateConnector(told.created()); });
       Close(told.Wait());
     }},
    {"Listener.Listen",
     [](World& w, Play& play) {
       const TestListener listener = w.a().NewListener();
       Told<> told;
       play([&] { return listener.object->Listen(w.a().At(), told.outcome()); });
       told.Wait();
       Close(listener.object);
     }},
    {"Listener.Listen(Reservation)",
     [](World& w, Play& play) {
       const TestListener listener = w.a().NewListener();
       const auto reservation = w.a().NewReservation(w.a().At());
       Told<> told;
       play([&] { return listener.object->Listen(reservation, told.outcome()); });
       told.Wait();
       Close(listener.object);
       Close(reservation);
     }},
    {"Listener.ControlConnectEvents",
     [](World& w, Play& play) {
       const TestListener listener = w.a().Listening();
       play([&] { return listener.object->ControlConnectEvents(true); });
       Close(listener.object);
     }},
    {"Listener.GetLocalAddress",
     [](World& w, Play& play) {
       const TestListener listener = w.a().Listening();
       PlayAddress(play, *listener.object, &client::Listener::GetLocalAddress);
       Close(listener.object);
     }},
    {"AddressHolder.OnAddressEvent",
     [](World& w, Play& play) {
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       play([&] { return endpoint->OnAddressEvent([](bool) {}); });
       Close(endpoint);
     }},
    {"SharedEndpoint.GetLocalAddress",
     [](World& w, Play& play) {
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       PlayAddress(play, *endpoint, &client::SharedEndpoint::GetLocalAddress);
       Close(endpoint);
     }},
    {"Connector.Connect",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       const auto connector = w.a().NewConnector();
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {
           .source = w.a().At(), .destination = acceptor.address(), .private_data = kPrivateData};
       Told<> told;
       play([&] { return connector->Connect(qp, parameters, told.outcome()); });
       told.Wait();
       Close(connector);
     }},
    {"Connector.ConnectWithSharedEndpoint",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       const auto connector = w.a().NewConnector();
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {.destination = acceptor.address(), .private_data = kPrivateData};
       Told<> told;
       play([&] { return connector->ConnectWithSharedEndpoint(qp, endpoint, parameters, told.outcome()); });
       told.Wait();
       Close(connector);
       Close(endpoint);
     }},
    {"Connector.CompleteConnect",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Reply(w.a(), w.b(), at_b);
       Told<> told;
       play([&] { return made.active->CompleteConnect({}, told.outcome()); });
       told.Wait();
       EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     },
     true},
    {"Connector.Accept",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const client::AcceptParameters parameters = {.private_data = kPrivateData};
       Told<> told;
       play([&] { return made.passive->Accept(made.passive_qp, parameters, {}, told.outcome()); });
       EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
       EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
       told.Wait();
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"Connector.Reject",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const std::string private_data = kPrivateData;
       Told<> told;
       play([&] { return made.passive->Reject(private_data, told.outcome()); });
       told.Wait();
       EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"Connector.Disconnect",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       Told<> told;
       play([&] { return made.active->Disconnect(told.outcome()); });
       EXPECT_EQ(w.b().Disconnect(made.passive).Status(), NdkStatus::kSuccess);
       told.Wait();
       w.Close(made);
     }},
    {"Connector.GetConnectionData",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       play([&] { return made.active->GetConnectionData(nullptr, nullptr, nullptr, nullptr); });
       w.Close(made);
     }},
    {"Connector.GetLocalAddress",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       PlayAddress(play, *made.active, &client::Connector::GetLocalAddress);
       w.Close(made);
     }},
    {"Connector.GetPeerAddress",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       PlayAddress(play, *made.active, &client::Connector::GetPeerAddress);
       w.Close(made);
     }},
    {"BlockingListAdapters",
     [](World& w, Play& play) { play([&] { return client::BlockingListAdapters(w.a().session()).outcome.status; }); }},
    {"BlockingOpenAdapter",
     [](World& w, Play& play) {
       std::shared_ptr<client::Adapter> adapter;
       play([&] {
         auto made = client::BlockingOpenAdapter(w.a().session(), w.on().device);
         adapter = std::move(made.object);
         return made.outcome.status;
       });
       Close(adapter);
     }},
    {"BlockingCreateSharedEndpoint",
     [](World& w, Play& play) {
       std::shared_ptr<client::SharedEndpoint> endpoint;
       play([&] {
         auto made = client::BlockingCreateSharedEndpoint(w.a().adapter(), w.a().At());
         endpoint = std::move(made.object);
         return made.outcome.status;
       });
       Close(endpoint);
     }},
    {"BlockingReservePort",
     [](World& w, Play& play) {
       std::shared_ptr<client::Reservation> reservation;
       play([&] {
         auto made = client::BlockingReservePort(w.a().adapter(), w.a().At());
         reservation = std::move(made.object);
         return made.outcome.status;
       });
       Close(reservation);
     }},
    {"BlockingConnect",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {.source = w.a().At(), .destination = acceptor.address()};
       std::shared_ptr<client::Connector> connector;
       play([&] {
         auto made = client::BlockingConnect(w.a().adapter(), qp, parameters);
         connector = std::move(made.object);
         return made.outcome.status;
       });
       Close(connector);
     }},
    {"BlockingConnect(SharedEndpoint)",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       QueuePair* const qp = w.a().NewQueuePair();
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       const client::ConnectParameters parameters = {.destination = acceptor.address()};
       std::shared_ptr<client::Connector> connector;
       play([&] {
         auto made = client::BlockingConnect(w.a().adapter(), qp, endpoint, parameters);
         connector = std::move(made.object);
         return made.outcome.status;
       });
       Close(connector);
       Close(endpoint);
     }},
    {"BlockingAccept",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const client::AcceptParameters parameters = {.private_data = kPrivateData};
       std::optional<Initiator> initiator;
       std::shared_ptr<client::Connector> passive;
       QueuePair* qp = nullptr;
       NdkStatus status = NdkStatus::kUnsuccessful;
       play(
           [&] {
             status = client::BlockingAccept(passive, qp, parameters).status;
             // Its peer, in this process, got no descriptor for the connection.
             if (status == NdkStatus::kConnectionAborted) status = NdkStatus::kInsufficientResources;
             return status;
           },
           [&] {
             // That has changed nothing; a connection that has come to no socket is over.
             if (status == NdkStatus::kNoMemory) return;
             if (passive != nullptr) Close(passive);
             initiator.emplace(w, at_b.address);
             passive = at_b.Next();
             qp = w.b().NewQueuePair();
           });
       Close(passive);
       initiator.reset();
       w.b().Close(at_b.object).Wait();
     }},
    {"BlockingDisconnect",
     [](World& w, Play& play) {
       Acceptor acceptor(w);
       const client::ConnectParameters parameters = {.source = w.a().At(), .destination = acceptor.address()};
       const auto made = client::BlockingConnect(w.a().adapter(), w.a().NewQueuePair(), parameters);
       ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
       // Its peer, in this process, has all descriptors by then.
       acceptor.AwaitAccept();
       play([&] { return client::BlockingDisconnect(made.object).status; });
       Close(made.object);
     }},
    {"BlockingListener.Next",
     [](World& w, Play& play) {
       const auto listening = client::BlockingListener::Listen(w.b().adapter(), w.b().At());
       ASSERT_TRUE(listening.outcome.ok()) << listening.outcome.hint;
       const Initiator initiator(w, listening.object->address());
       std::shared_ptr<client::Connector> passive;
       play([&] {
         auto made = listening.object->Next();
         passive = std::move(made.object);
         return made.outcome.status;
       });
       Close(passive);
     }},
    {"BlockingReject",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const std::string private_data = kPrivateData;
       play([&] { return client::BlockingReject(made.passive, private_data).status; });
       EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"BlockingClose",
     [](World& w, Play& play) {
       const auto connector = w.a().NewConnector();
       play([&] { return client::BlockingClose(connector); });
     }},
    {"BlockingListener.Listen",
     [](World& w, Play& play) {
       std::unique_ptr<client::BlockingListener> listener;
       play([&] {
         auto made = client::BlockingListener::Listen(w.a().adapter(), w.a().At());
         listener = std::move(made.object);
         return made.outcome.status;
       });
       if (listener != nullptr) Close(listener->listener());
     }},
};

}  // namespace

std::span<const Row> BrokerRows() { return kRows; }

}  // namespace rdmabroker::misuse
