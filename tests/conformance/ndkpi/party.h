// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_PARTY_H_
#define TESTS_CONFORMANCE_NDKPI_PARTY_H_

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/reservation.h"
#include "client/session.h"
#include "client/shared_endpoint.h"
#include "dataplane/testing/side.h"
#include "tests/conformance/ndkpi/call.h"

namespace rdmabroker::ndkpi {

// A listener, and the connect requests that it has delivered.
class TestListener {
 public:
  // Gets each request on the session's thread, where it may do what a consumer's callback may; null: requests wait.
  using Handler = std::function<void(const std::shared_ptr<client::Connector>&)>;

  std::shared_ptr<client::Listener> object;
  SocketAddress address;  // Once it listens.

  // Waits for a request. The case ends where none comes.
  std::shared_ptr<client::Connector> Next() const;
  // A request that waits; null where none does.
  std::shared_ptr<client::Connector> TakeWaiting() const;
  // So many have been delivered so far.
  size_t delivered() const;
  client::ConnectEventCallback callback() const;
  void Handle(Handler handler) const;

 private:
  struct Events {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<client::Connector>> waiting;
    size_t delivered = 0;
    Handler handler;
  };

  std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

// The disconnect events of a connector.
class DisconnectEvents {
 public:
  client::DisconnectEventCallback callback() const;
  size_t count() const;
  // Waits for the first.
  client::DisconnectEvent Wait() const;

 private:
  struct Events {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<client::DisconnectEvent> all;
  };

  std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

// What the broker has said of them. The case ends where that is nothing.
SocketAddress AddressOf(const TestListener& listener);
client::ConnectionData DataOf(const std::shared_ptr<client::Connector>& connector);

// Where a party is at home.
struct Home {
  std::string control_socket;
  std::string device;
  std::array<IpAddress, 2> ips;  // IPv4 and IPv6.
};

// A consumer: a session of its own with an instance of the adapter. Functions that return an object cannot fail in any
// case: where they do, the case ends, as by Needed. The others return their call, which a null object ends with
// kUnsuccessful. Objects live until they are closed or the party ends.
class Party {
 public:
  Party(const Home& home, Calls& calls);
  // Ends the session, and closes what was made on the adapter's data side.
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  client::Session& session() { return *session_; }
  const std::shared_ptr<client::Adapter>& adapter() const { return adapter_; }
  const AdapterInfo& info() const { return adapter_->info(); }
  SocketAddress At(uint16_t port = 0) const { return {home_.ips[0], port}; }
  SocketAddress At6(uint16_t port = 0) const { return {home_.ips[1], port}; }
  // Its data objects, made when they are first asked for, with a queue pair of their own.
  DataSide& side();
  bool has_side() const { return side_ != nullptr; }
  // Opens the adapter once more, for objects of the broker's that are made from now on. Returns the former instance,
  // whose the data objects stay if there are any.
  std::shared_ptr<client::Adapter> Reopen();

  QueuePair* NewQueuePair(void* context = nullptr);
  // With the side's completion queue where the attributes name none.
  QueuePair* NewQueuePair(QueuePairAttributes attributes);
  CompletionQueue* NewCompletionQueue(uint32_t depth, CqNotification notification);
  SharedReceiveQueue* NewSharedReceiveQueue(SharedReceiveQueueAttributes attributes);
  std::shared_ptr<client::Connector> NewConnector();
  // Not listening yet.
  TestListener NewListener();
  // On a port of the broker's choice, or on that address.
  TestListener Listening() { return ListeningAt(At()); }
  TestListener ListeningAt(const SocketAddress& address);
  std::shared_ptr<client::SharedEndpoint> NewSharedEndpoint(const SocketAddress& address);
  std::shared_ptr<client::Reservation> NewReservation(const SocketAddress& address);

  Call Listen(const TestListener& listener, const SocketAddress& address);
  // What it makes is closed again.
  Call CreateSharedEndpoint(const SocketAddress& address);
  // From a port of the broker's choice, unless the parameters name a source.
  Call Connect(const std::shared_ptr<client::Connector>& connector, QueuePair* qp, const SocketAddress& destination,
               client::ConnectParameters parameters = {});
  Call ConnectWithSharedEndpoint(const std::shared_ptr<client::Connector>& connector, QueuePair* qp,
                                 const std::shared_ptr<client::SharedEndpoint>& endpoint,
                                 const SocketAddress& destination, client::ConnectParameters parameters = {});
  Call CompleteConnect(const std::shared_ptr<client::Connector>& connector,
                       client::DisconnectEventCallback on_disconnect = {});
  Call Accept(const std::shared_ptr<client::Connector>& connector, QueuePair* qp,
              const client::AcceptParameters& parameters = {}, client::DisconnectEventCallback on_disconnect = {});
  // With a completion.
  Call Reject(const std::shared_ptr<client::Connector>& connector, const std::string& private_data = {});
  Call Disconnect(const std::shared_ptr<client::Connector>& connector);
  Call Close(const std::shared_ptr<client::BrokerObject>& object);
  Call Close(DataObject* object);

  // Returns when everything that the broker had for this party before has been delivered.
  void Settle();

 private:
  template <typename Object, typename Create>
  std::shared_ptr<Object> Made(const char* function, const Create& create);

  const Home home_;
  Calls& calls_;
  std::unique_ptr<client::Session> session_;
  std::shared_ptr<client::Adapter> adapter_;
  std::unique_ptr<DataSide> side_;
  std::vector<QueuePair*> queue_pairs_;  // Those that NewQueuePair made and Close has not closed.
  std::vector<DataObject*> queues_;      // What queue pairs were made of; likewise.
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_PARTY_H_
