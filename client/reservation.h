// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_RESERVATION_H_
#define CLIENT_RESERVATION_H_

#include <memory>

#include "client/broker_object.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::client {

// A held address, for a later Listen or CreateSharedEndpoint. Close gives it up, unless one of those has taken it over.
// Close may be called while one of them is pending, and waits for it.
class Reservation : public BrokerObject {
 public:
  // The address, with the port that was chosen where 0 was asked for.
  const SocketAddress& address() const { return address_; }

 private:
  friend class Adapter;
  friend class Listener;

  explicit Reservation(std::shared_ptr<BrokerLink> link) : BrokerObject(std::move(link), ObjectKind::kReservation) {}

  void BeginUse() { ++uses_; }
  void EndUse(bool taken);
  void SubmitClose(Done done) override;
  void HandleEvent(const v1::SessionEvent&) override {}

  SocketAddress address_;  // Set before anybody else sees the object.
  int uses_ = 0;           // Requests under way that name it.
  bool taken_ = false;
  Done waiting_close_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_RESERVATION_H_
