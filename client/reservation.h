// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_RESERVATION_H_
#define CLIENT_RESERVATION_H_

#include <memory>

#include "client/address_holder.h"

namespace rdmabroker::client {

// A held address, for a later Listen or CreateSharedEndpoint. Close gives it up, unless one of those has taken it over.
// Close may be called while one of them is pending, and waits for it.
class Reservation : public AddressHolder {
 private:
  friend class Adapter;
  friend class Listener;

  explicit Reservation(std::shared_ptr<BrokerLink> link) : AddressHolder(std::move(link), ObjectKind::kReservation) {}

  void BeginUse() { ++uses_; }
  void EndUse(bool taken);
  void SubmitClose(Done done) override;

  int uses_ = 0;  // Requests under way that name it.
  bool taken_ = false;
  Done waiting_close_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_RESERVATION_H_
