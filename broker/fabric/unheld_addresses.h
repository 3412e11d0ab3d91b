// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_UNHELD_ADDRESSES_H_
#define BROKER_FABRIC_UNHELD_ADDRESSES_H_

#include <cstdint>
#include <map>
#include <set>

#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Tells of the addresses that endpoints are to hold and do not get, mostly as a program outside has taken them while
// there was no process. Of each once until the endpoint has it or is to hold others, and of one a second. Loop thread
// only.
class UnheldAddresses {
 public:
  // It could not be bound, for an errno, and is tried again after `pause`.
  void Miss(EndpointId endpoint, const SocketAddress& address, int error, absl::Duration pause);
  // The endpoint has it.
  void Hold(EndpointId endpoint, const IpAddress& ip);
  // It has ended, or is to hold others.
  void Forget(EndpointId endpoint) { told_.erase(endpoint); }

 private:
  std::map<EndpointId, std::set<IpAddress>> told_;
  WarningLimit warnings_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_UNHELD_ADDRESSES_H_
