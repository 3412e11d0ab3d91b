// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_ADDRESS_HOLDER_H_
#define CLIENT_ADDRESS_HOLDER_H_

#include <functional>
#include <memory>

#include "client/broker_object.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::client {

// The adapter has lost the address that an object holds, or has it (again): ListenerAddressEvent and
// EndpointAddressEvent in session.proto. On the session's thread.
using AddressEventCallback = std::function<void(bool present)>;

// The base of objects that hold a local address from their creation on: shared endpoints and reservations.
class AddressHolder : public BrokerObject {
 public:
  // The address, with the port that was chosen where 0 was asked for.
  const SocketAddress& address() const { return address_; }

  // Has `on_address` called when the adapter loses the address, and when it has it again; at once where it has lost it
  // already. A later call replaces an earlier one. An object at a wildcard has no such events.
  // kSuccess: it will be. kInvalidDeviceState: the object is closed or closing. kNoMemory: nothing has changed; or what
  // the session has ended with.
  NdkStatus OnAddressEvent(AddressEventCallback on_address);

 protected:
  using BrokerObject::BrokerObject;

  SocketAddress address_;  // Set before anybody else sees the object.

 private:
  void OnClosing() override { on_address_ = nullptr; }
  void HandleEvent(const v1::SessionEvent& event) override;

  AddressEventCallback on_address_;  // May be null.
  bool present_ = true;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_ADDRESS_HOLDER_H_
