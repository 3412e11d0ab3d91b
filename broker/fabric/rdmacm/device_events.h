// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_DEVICE_EVENTS_H_
#define BROKER_FABRIC_RDMACM_DEVICE_EVENTS_H_

#include <utility>

#include "absl/status/statusor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Tells that devices may have come or gone, by the kernel's uevents of the subsystems infiniband and misc, where the
// connection manager's own device is. A container whose user namespace is not the host's gets those of the devices
// alone, that of a removal not before everybody has closed the device (lib/kobject_uevent.c); there, other changes are
// seen with those of addresses.
class DeviceEvents {
 public:
  // UNAVAILABLE with the kernel's reason.
  static absl::StatusOr<DeviceEvents> Open();

  int descriptor() const { return socket_.get(); }
  // Takes what has come, and says whether any of it concerns RDMA.
  bool Take() const;

 private:
  explicit DeviceEvents(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_DEVICE_EVENTS_H_
