// SPDX-License-Identifier: Apache-2.0

#include <limits>

#include "broker/store/enumerations.h"
#include "broker/store/value_codec.h"

namespace rdmabroker::store {

int64_t ToProto(Instant time) {
  if (time == absl::InfinitePast()) return std::numeric_limits<int64_t>::min();
  if (time == absl::InfiniteFuture()) return std::numeric_limits<int64_t>::max();
  return absl::ToUnixNanos(time);
}

v1::AddressNews ToProto(AddressNews news) { return ToProto(kAddressNews, news); }
v1::ListenerState ToProto(ListenerState state) { return ToProto(kListenerStates, state); }
v1::ConnectorState ToProto(ConnectorState state) { return ToProto(kConnectorStates, state); }
v1::EndpointState ToProto(EndpointState state) { return ToProto(kEndpointStates, state); }
v1::EndpointUse ToProto(EndpointUse use) { return ToProto(kEndpointUses, use); }
v1::Farewell ToProto(Farewell farewell) { return ToProto(kFarewells, farewell); }

}  // namespace rdmabroker::store
