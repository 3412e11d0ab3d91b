// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_BLOCKING_H_
#define CLIENT_BLOCKING_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/reservation.h"
#include "client/session.h"
#include "client/shared_endpoint.h"
#include "client/values.h"

namespace rdmabroker::client {

// The library for a program that would rather wait. A passive side:
//
//   auto [opened, session] = Session::Open();
//   auto [found, adapter] = BlockingOpenAdapter(*session, "iwarp0");
//   auto [listening, listener] = BlockingListener::Listen(adapter, *SocketAddress::Parse("192.0.2.1:4420"));
//   auto [arrived, connector] = listener->Next();
//   ... a queue pair from adapter->data(), with its first receives posted ...
//   Outcome established = BlockingAccept(connector, queue_pair, {});
//   ... the queue pair's work ...
//   BlockingDisconnect(connector);
//   BlockingClose(connector);
//
// Every function waits for the request's end, which the broker bounds (Limits in session.proto). When the adapter's
// device is removed, all but closes end with kDeviceRemoved: close what is on the adapter then. None waits where
// OnCallbackThread in dataplane/callback_thread.h is true: they change nothing there and return kInvalidDeviceState.

// What a function here has made, or why there is nothing.
template <typename Object>
struct Made {
  Outcome outcome;
  Object object = {};  // Empty unless the outcome is success.
};

// As Session::ListAdapters.
Made<std::vector<Device>> BlockingListAdapters(Session& session);
// As Session::OpenAdapter, but without the adapter's events.
Made<std::shared_ptr<Adapter>> BlockingOpenAdapter(Session& session, const std::string& device,
                                                   NdkVersion version = kNdkVersion);

// As Adapter::CreateSharedEndpoint; port 0 asks for a free one.
Made<std::shared_ptr<SharedEndpoint>> BlockingCreateSharedEndpoint(const std::shared_ptr<Adapter>& adapter,
                                                                   const SocketAddress& address);
// As Adapter::ReservePort.
Made<std::shared_ptr<Reservation>> BlockingReservePort(const std::shared_ptr<Adapter>& adapter,
                                                       const SocketAddress& address);

// Connects and completes, so that the connection is established. After a failure the connector has been closed. Post
// the queue pair's receives before. The second form connects from a shared endpoint, and `parameters.source` is
// ignored.
Made<std::shared_ptr<Connector>> BlockingConnect(const std::shared_ptr<Adapter>& adapter, QueuePair* queue_pair,
                                                 const ConnectParameters& parameters,
                                                 DisconnectEventCallback on_disconnect = {});
Made<std::shared_ptr<Connector>> BlockingConnect(const std::shared_ptr<Adapter>& adapter, QueuePair* queue_pair,
                                                 const std::shared_ptr<SharedEndpoint>& endpoint,
                                                 const ConnectParameters& parameters,
                                                 DisconnectEventCallback on_disconnect = {});
// As Connector::Accept: success when the connection is established. After a failure the connector can only be closed,
// unless Broker.Accept in broker.proto says otherwise.
Outcome BlockingAccept(const std::shared_ptr<Connector>& connector, QueuePair* queue_pair,
                       const AcceptParameters& parameters, DisconnectEventCallback on_disconnect = {});
// As Connector::Reject.
Outcome BlockingReject(const std::shared_ptr<Connector>& connector, const std::string& private_data);
// As Connector::Disconnect: returns when the peer has disconnected, too.
Outcome BlockingDisconnect(const std::shared_ptr<Connector>& connector);

// Returns when the object is closed: once everything that depends on it is; at once where Close was called before.
NdkStatus BlockingClose(const std::shared_ptr<BrokerObject>& object);
NdkStatus BlockingClose(DataObject* object);

// A listener whose connect requests wait in a queue: no more than the broker's Limits.backlog.
class BlockingListener {
 public:
  // As Listener::Listen; port 0 asks for a free one.
  static Made<std::unique_ptr<BlockingListener>> Listen(const std::shared_ptr<Adapter>& adapter,
                                                        const SocketAddress& address,
                                                        const ListenOptions& options = {});
  // Turns down the peers that still wait in the queue, and closes the listener without waiting for its connectors.
  ~BlockingListener();
  BlockingListener(const BlockingListener&) = delete;
  BlockingListener& operator=(const BlockingListener&) = delete;

  // The address, with the port that was chosen where 0 was asked for.
  SocketAddress address() const;
  // For pausing it, for example.
  const std::shared_ptr<Listener>& listener() const { return listener_; }

  // The next peer that wants to connect; the connector is the caller's to close. kIoTimeout: none came in time;
  // kCancelled: the listener or its session was closed; kDeviceRemoved: the adapter's device is gone, and the peers
  // that waited in the queue have been turned down; or what the session has ended with. Several threads may wait.
  Made<std::shared_ptr<Connector>> Next(std::chrono::milliseconds timeout = std::chrono::hours(24));

 private:
  struct Queue;

  BlockingListener(std::shared_ptr<Listener> listener, std::shared_ptr<Queue> queue);

  const std::shared_ptr<Listener> listener_;
  const std::shared_ptr<Queue> queue_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_BLOCKING_H_
