// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_LISTENER_H_
#define CLIENT_LISTENER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/address_holder.h"
#include "client/broker_object.h"
#include "client/local_address.h"
#include "client/values.h"

namespace rdmabroker::v1 {
class ConnectEvent;
class ListenRequest;
}  // namespace rdmabroker::v1

namespace rdmabroker::client {

class Adapter;
class Connector;
class Reservation;

// NDK_FN_CONNECT_EVENT_CALLBACK. The connector is never null. It belongs to the consumer, who must close it in the end,
// whatever becomes of it.
using ConnectEventCallback = std::function<void(std::shared_ptr<Connector>)>;

struct ListenOptions {
  // Holds the address until the adapter has it, and succeeds at once; otherwise Listen fails with kInvalidAddress where
  // the adapter has not got it.
  bool await_address = false;
  // Follows the address to any adapter that the session has opened and that is of the same kind, as when a bond fails
  // over to the port of another device. Connector::adapter says which one a peer has reached. kInvalidParameter with a
  // wildcard. The listener still ends with the device of its own adapter.
  bool any_adapter = false;
};

// NDK_LISTENER. Its close waits for every connector that it delivered; from the moment of Close on, peers are turned
// down, even those that are on their way to a ConnectEvent.
class Listener : public BrokerObject {
 public:
  // Binds the address and starts. Connect events come after the completion has been called with success. Listen in
  // broker.proto lists the failures; after one, another Listen is allowed. In the last form the listener takes the
  // reservation's place.
  NdkStatus Listen(const SocketAddress& address, OutcomeCompletion completion);
  NdkStatus Listen(const SocketAddress& address, const ListenOptions& options, OutcomeCompletion completion);
  NdkStatus Listen(const std::shared_ptr<Reservation>& reservation, OutcomeCompletion completion);

  // Stops or resumes the delivery of connect events: while it is stopped, peers are turned down as if nothing listened.
  // The one event that the session's thread is delivering at that moment may still arrive after this has returned.
  // Allowed before Listen.
  // kInvalidDeviceState: the listener is closed or closing; kNoMemory: nothing has changed; or what the session has
  // ended with.
  NdkStatus ControlConnectEvents(bool pause);

  // As Connector::GetLocalAddress, with the port that was chosen where 0 was asked for; kInvalidDeviceState: it does
  // not listen.
  NdkStatus GetLocalAddress(sockaddr* address, uint32_t* length) const;
  std::optional<SocketAddress> address() const;

 private:
  friend class Adapter;
  friend class BlockingListener;

  Listener(std::shared_ptr<BrokerLink> link, std::shared_ptr<Adapter> adapter, ConnectEventCallback on_connect,
           AddressEventCallback on_address);

  void StartListen(const v1::ListenRequest& request, const std::shared_ptr<Reservation>& reservation,
                   const OutcomeCompletion& completion);
  void SyncPause();
  void TellOfAddress(bool present);
  void Deliver(const v1::ConnectEvent& event);
  // Has `on_removal` called, on the session's thread, when the adapter's device is gone; at once if it is already.
  NdkStatus OnDeviceRemoval(std::function<void()> on_removal);
  void SubmitClose(Done done) override;
  void OnClosing() override;
  void HandleEvent(const v1::SessionEvent& event) override;
  void HandleDeviceRemoval(const Adapter& adapter) override;

  const std::shared_ptr<Adapter> adapter_;
  std::atomic<bool> paused_ = false;  // As the consumer wants it.
  mutable std::mutex mutex_;
  std::optional<SocketAddress> address_;  // Guarded by mutex_.

  ConnectEventCallback on_connect_;
  AddressEventCallback on_address_;  // May be null.
  std::function<void()> on_removal_;
  int listens_ = 0;  // Under way.
  // Until the Listen that they came before has completed.
  std::vector<v1::ConnectEvent> held_;
  std::optional<bool> held_presence_;
  bool broker_paused_ = false;
  bool pausing_ = false;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_LISTENER_H_
