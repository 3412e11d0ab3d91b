// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/unheld_addresses.h"

#include <cstring>

#include "broker/log/log.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

void UnheldAddresses::Miss(EndpointId endpoint, const SocketAddress& address, int error, absl::Duration pause) {
  if (const auto told = told_.find(endpoint); told != told_.end() && told->second.contains(address.ip)) return;
  // What is left out now is told of when it is tried again.
  if (!warnings_.Pass(Loop::Now())) return;
  told_[endpoint].insert(address.ip);
  LogWarning("address of an endpoint not held", {{"address", address.ToString()},
                                                 {"cause", std::strerror(error)},
                                                 {"retry_seconds", absl::ToInt64Seconds(pause)}});
}

void UnheldAddresses::Hold(EndpointId endpoint, const IpAddress& ip) {
  const auto told = told_.find(endpoint);
  if (told != told_.end() && told->second.erase(ip) != 0 && told->second.empty()) told_.erase(told);
}

}  // namespace rdmabroker
