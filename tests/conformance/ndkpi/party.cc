// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/party.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/blocking.h"
#include "tests/needed.h"

namespace rdmabroker::ndkpi {

std::shared_ptr<client::Connector> TestListener::Next() const {
  std::unique_lock lock(events_->mutex);
  events_->changed.wait_for(lock, kPatience, [this] { return !events_->waiting.empty(); });
  lock.unlock();
  return Needed(TakeWaiting(), "connect request");
}

std::shared_ptr<client::Connector> TestListener::TakeWaiting() const {
  const std::lock_guard lock(events_->mutex);
  if (events_->waiting.empty()) return nullptr;
  auto next = std::move(events_->waiting.front());
  events_->waiting.pop_front();
  return next;
}

size_t TestListener::delivered() const {
  const std::lock_guard lock(events_->mutex);
  return events_->delivered;
}

client::ConnectEventCallback TestListener::callback() const {
  return [events = events_](const std::shared_ptr<client::Connector>& connector) {
    std::unique_lock lock(events->mutex);
    ++events->delivered;
    if (const Handler handler = events->handler) {
      lock.unlock();
      return handler(connector);
    }
    events->waiting.push_back(connector);
    events->changed.notify_all();
  };
}

void TestListener::Handle(Handler handler) const {
  const std::lock_guard lock(events_->mutex);
  events_->handler = std::move(handler);
}

client::DisconnectEventCallback DisconnectEvents::callback() const {
  return [events = events_](const client::DisconnectEvent& event) {
    const std::lock_guard lock(events->mutex);
    events->all.push_back(event);
    events->changed.notify_all();
  };
}

size_t DisconnectEvents::count() const {
  const std::lock_guard lock(events_->mutex);
  return events_->all.size();
}

client::DisconnectEvent DisconnectEvents::Wait() const {
  std::unique_lock lock(events_->mutex);
  if (!events_->changed.wait_for(lock, kPatience, [this] { return !events_->all.empty(); })) {
    ADD_FAILURE() << "no disconnect event comes";
    return {};
  }
  return events_->all.front();
}

SocketAddress AddressOf(const TestListener& listener) {
  return *Needed(Needed(listener.object, "listener")->address(), "address that the listener listens on");
}

client::ConnectionData DataOf(const std::shared_ptr<client::Connector>& connector) {
  return *Needed(Needed(connector, "connector")->connection_data(), "connection data");
}

Party::Party(const Home& home, Calls& calls) : home_(home), calls_(calls) {
  client::SessionOptions options;
  options.control_socket = home.control_socket;
  options.open_timeout = kPatience;
  auto opening = client::Session::Open(std::move(options));
  session_ = Needed(std::move(opening.session), "session: " + opening.outcome.hint);
  Reopen();
}

Party::~Party() {
  // Connectors let go of their queue pairs.
  session_ = nullptr;
  for (QueuePair* const queue_pair : queue_pairs_) CloseAndWait(queue_pair);
  for (DataObject* const queue : queues_) CloseAndWait(queue);
}

DataSide& Party::side() {
  if (side_ == nullptr) side_ = std::make_unique<DataSide>(adapter_->data(), false, SideOptions());
  return *side_;
}

std::shared_ptr<client::Adapter> Party::Reopen() {
  auto made = client::BlockingOpenAdapter(*session_, home_.device);
  return std::exchange(adapter_, Needed(std::move(made.object), "adapter: " + made.outcome.hint));
}

template <typename Object, typename Create>
std::shared_ptr<Object> Party::Made(const char* function, const Create& create) {
  // The completion's, too, which may come when nobody waits for it any more.
  const auto made = std::make_shared<std::shared_ptr<Object>>();
  const Call call = calls_.Make(function, [&](const Call& c) {
    return create([made, done = c.completion()](const client::Outcome& outcome, std::shared_ptr<Object> object) {
      *made = std::move(object);
      done(outcome);
    });
  });
  const client::Outcome outcome = call.Wait();
  return Needed(outcome.ok() ? *made : nullptr, std::string("success of ") + function + ": " +
                                                    std::string(StatusName(outcome.status)) + ", " + outcome.hint);
}

QueuePair* Party::NewQueuePair(void* context) {
  return queue_pairs_.emplace_back(Needed(side().NewQueuePair({}, context), "queue pair"));
}

QueuePair* Party::NewQueuePair(QueuePairAttributes attributes) {
  if (attributes.receive_cq == nullptr) attributes.receive_cq = side().cq;
  if (attributes.initiator_cq == nullptr) attributes.initiator_cq = side().cq;
  return queue_pairs_.emplace_back(Needed(side().domain->CreateQueuePair(attributes).object, "queue pair"));
}

CompletionQueue* Party::NewCompletionQueue(uint32_t depth, CqNotification notification) {
  CompletionQueue* const made = side().adapter->CreateCompletionQueue(depth, std::move(notification)).object;
  queues_.push_back(Needed(made, "completion queue"));
  return made;
}

SharedReceiveQueue* Party::NewSharedReceiveQueue(SharedReceiveQueueAttributes attributes) {
  SharedReceiveQueue* const made = side().domain->CreateSharedReceiveQueue(std::move(attributes)).object;
  queues_.push_back(Needed(made, "shared receive queue"));
  return made;
}

std::shared_ptr<client::Connector> Party::NewConnector() {
  return Made<client::Connector>("CreateConnector", [this](auto done) { return adapter_->CreateConnector(done); });
}

TestListener Party::NewListener() {
  TestListener listener;
  listener.object = Made<client::Listener>(
      "CreateListener", [&](auto done) { return adapter_->CreateListener(listener.callback(), done); });
  return listener;
}

TestListener Party::ListeningAt(const SocketAddress& address) {
  TestListener listener = NewListener();
  const client::Outcome outcome = Listen(listener, address).Wait();
  EXPECT_TRUE(outcome.ok()) << StatusName(outcome.status) << ": " << outcome.hint;
  listener.address = AddressOf(listener);
  return listener;
}

std::shared_ptr<client::SharedEndpoint> Party::NewSharedEndpoint(const SocketAddress& address) {
  return Made<client::SharedEndpoint>("CreateSharedEndpoint",
                                      [&](auto done) { return adapter_->CreateSharedEndpoint(address, done); });
}

std::shared_ptr<client::Reservation> Party::NewReservation(const SocketAddress& address) {
  return Made<client::Reservation>("ReservePort", [&](auto done) { return adapter_->ReservePort(address, done); });
}

Call Party::Listen(const TestListener& listener, const SocketAddress& address) {
  return calls_.Make("Listen", [&](const Call& c) {
    return listener.object == nullptr ? NdkStatus::kUnsuccessful : listener.object->Listen(address, c.completion());
  });
}

Call Party::CreateSharedEndpoint(const SocketAddress& address) {
  return calls_.Make("CreateSharedEndpoint", [&](const Call& c) {
    return adapter_->CreateSharedEndpoint(address, [done = c.completion()](const client::Outcome& outcome, auto made) {
      if (made != nullptr) made->Close({});
      done(outcome);
    });
  });
}

Call Party::Connect(const std::shared_ptr<client::Connector>& connector, QueuePair* qp,
                    const SocketAddress& destination, client::ConnectParameters parameters) {
  parameters.destination = destination;
  if (parameters.source == SocketAddress()) {
    parameters.source = destination.ip.family == IpFamily::kIpv4 ? At() : At6();
  }
  return calls_.Make("Connect", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful : connector->Connect(qp, parameters, c.completion());
  });
}

Call Party::ConnectWithSharedEndpoint(const std::shared_ptr<client::Connector>& connector, QueuePair* qp,
                                      const std::shared_ptr<client::SharedEndpoint>& endpoint,
                                      const SocketAddress& destination, client::ConnectParameters parameters) {
  parameters.destination = destination;
  return calls_.Make("ConnectWithSharedEndpoint", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful
                                : connector->ConnectWithSharedEndpoint(qp, endpoint, parameters, c.completion());
  });
}

Call Party::CompleteConnect(const std::shared_ptr<client::Connector>& connector,
                            client::DisconnectEventCallback on_disconnect) {
  return calls_.Make("CompleteConnect", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful
                                : connector->CompleteConnect(std::move(on_disconnect), c.completion());
  });
}

Call Party::Accept(const std::shared_ptr<client::Connector>& connector, QueuePair* qp,
                   const client::AcceptParameters& parameters, client::DisconnectEventCallback on_disconnect) {
  return calls_.Make("Accept", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful
                                : connector->Accept(qp, parameters, std::move(on_disconnect), c.completion());
  });
}

Call Party::Reject(const std::shared_ptr<client::Connector>& connector, const std::string& private_data) {
  return calls_.Make("Reject", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful : connector->Reject(private_data, c.completion());
  });
}

Call Party::Disconnect(const std::shared_ptr<client::Connector>& connector) {
  return calls_.Make("Disconnect", [&](const Call& c) {
    return connector == nullptr ? NdkStatus::kUnsuccessful : connector->Disconnect(c.completion());
  });
}

Call Party::Close(const std::shared_ptr<client::BrokerObject>& object) {
  return calls_.Make("Close", [&](const Call& c) {
    return object == nullptr ? NdkStatus::kUnsuccessful : object->Close(c.close_completion());
  });
}

Call Party::Close(DataObject* object) {
  std::erase(queue_pairs_, object);
  std::erase(queues_, object);
  return calls_.Make("Close", [&](const Call& c) {
    return object == nullptr ? NdkStatus::kUnsuccessful : object->Close(c.close_completion());
  });
}

void Party::Settle() {
  // Listen ends on the session's stream, behind everything that was there before.
  const TestListener listener = Listening();
  Close(listener.object).Wait();
}

}  // namespace rdmabroker::ndkpi
