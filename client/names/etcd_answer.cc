// SPDX-License-Identifier: Apache-2.0

#include "client/names/etcd_answer.h"

#include "client/names/source.h"

namespace rdmabroker::client {

Resolution ReadAddresses(const std::string& name, const etcd::RangeResponse& answer) {
  if (answer.kvs().empty()) {
    return Failure(NdkStatus::kObjectNameNotFound, "nobody has the name " + name + " in etcd");
  }
  Resolution resolution;
  std::string why_not;
  for (const etcd::KeyValue& pair : answer.kvs()) {
    if (resolution.addresses.size() == kMostAddresses) break;  // Of more than etcd was asked for.
    const auto address = SocketAddress::Parse(pair.value(), &why_not);
    if (!address.has_value()) continue;
    why_not = "nobody can connect to it";
    if (IsUsable(*address)) resolution.addresses.push_back(*address);
  }
  if (!resolution.addresses.empty()) return resolution;
  return Failure(NdkStatus::kUnsuccessful,
                 "what etcd has under the name " + name + " is no address: " + OneLine(why_not));
}

}  // namespace rdmabroker::client
