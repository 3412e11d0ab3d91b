// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_INCOMING_IDS_H_
#define BROKER_FABRIC_INCOMING_IDS_H_

#include <algorithm>
#include <cstdint>

#include "broker/core/ids.h"

namespace rdmabroker {

// Mints the ids of a fabric's incoming connections. They are counted over all of its devices and carry the first one's
// id: those of devices that come later have no bound, as each that comes back has a new one.
class IncomingIds {
 public:
  // `first_device`: no other fabric's, and of 15 bits.
  explicit IncomingIds(DeviceId first_device) : first_device_(first_device) {}

  ConnectionId Next() { return IncomingConnection(first_device_, ++last_); }
  // There is this one already, of whatever kind.
  void Adopt(ConnectionId id) { last_ = std::max(last_, IncomingCounter(id)); }

 private:
  const DeviceId first_device_;
  uint64_t last_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_INCOMING_IDS_H_
