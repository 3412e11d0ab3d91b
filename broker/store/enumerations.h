// SPDX-License-Identifier: Apache-2.0

// The core's enumerations beside the stored ones, whose numbers never change.

#ifndef BROKER_STORE_ENUMERATIONS_H_
#define BROKER_STORE_ENUMERATIONS_H_

#include <cstddef>

#include "broker/core/state.h"
#include "broker/store/field.h"
#include "broker/store/value_codec.h"

namespace rdmabroker::store {

template <typename Core, typename Stored>
struct EnumerationRow {
  Core core;
  Stored stored;
};

inline constexpr EnumerationRow<PortSpace, wire::PortSpace> kPortSpaces[] = {
    {PortSpace::kRdmaCm, wire::PORT_SPACE_RDMA_CM},
    {PortSpace::kTcp, wire::PORT_SPACE_TCP},
};

inline constexpr EnumerationRow<RdmaTechnology, wire::RdmaTechnology> kTechnologies[] = {
    {RdmaTechnology::kUndefined, wire::RDMA_TECHNOLOGY_UNDEFINED},
    {RdmaTechnology::kIwarp, wire::RDMA_TECHNOLOGY_IWARP},
    {RdmaTechnology::kInfiniBand, wire::RDMA_TECHNOLOGY_INFINIBAND},
    {RdmaTechnology::kRoce, wire::RDMA_TECHNOLOGY_ROCE},
    {RdmaTechnology::kRoceV2, wire::RDMA_TECHNOLOGY_ROCE_V2},
};

inline constexpr EnumerationRow<AddressNews, v1::AddressNews> kAddressNews[] = {
    {AddressNews::kNone, v1::ADDRESS_NEWS_NONE},
    {AddressNews::kOfListeners, v1::ADDRESS_NEWS_OF_LISTENERS},
    {AddressNews::kOfAll, v1::ADDRESS_NEWS_OF_ALL},
};

inline constexpr EnumerationRow<ListenerState, v1::ListenerState> kListenerStates[] = {
    {ListenerState::kCreated, v1::LISTENER_STATE_CREATED},
    {ListenerState::kBinding, v1::LISTENER_STATE_BINDING},
    {ListenerState::kListening, v1::LISTENER_STATE_LISTENING},
};

inline constexpr EnumerationRow<ConnectorState, v1::ConnectorState> kConnectorStates[] = {
    {ConnectorState::kIdle, v1::CONNECTOR_STATE_IDLE},
    {ConnectorState::kBinding, v1::CONNECTOR_STATE_BINDING},
    {ConnectorState::kConnecting, v1::CONNECTOR_STATE_CONNECTING},
    {ConnectorState::kReplied, v1::CONNECTOR_STATE_REPLIED},
    {ConnectorState::kCompleting, v1::CONNECTOR_STATE_COMPLETING},
    {ConnectorState::kRequested, v1::CONNECTOR_STATE_REQUESTED},
    {ConnectorState::kAccepting, v1::CONNECTOR_STATE_ACCEPTING},
    {ConnectorState::kEstablished, v1::CONNECTOR_STATE_ESTABLISHED},
    {ConnectorState::kPeerDisconnected, v1::CONNECTOR_STATE_PEER_DISCONNECTED},
    {ConnectorState::kDisconnecting, v1::CONNECTOR_STATE_DISCONNECTING},
    {ConnectorState::kDead, v1::CONNECTOR_STATE_DEAD},
};

inline constexpr EnumerationRow<EndpointState, v1::EndpointState> kEndpointStates[] = {
    {EndpointState::kBinding, v1::ENDPOINT_STATE_BINDING},
    {EndpointState::kBound, v1::ENDPOINT_STATE_BOUND},
    {EndpointState::kRepurposing, v1::ENDPOINT_STATE_REPURPOSING},
    {EndpointState::kUnbinding, v1::ENDPOINT_STATE_UNBINDING},
};

inline constexpr EnumerationRow<EndpointUse, v1::EndpointUse> kEndpointUses[] = {
    {EndpointUse::kListener, v1::ENDPOINT_USE_LISTENER},
    {EndpointUse::kDedicated, v1::ENDPOINT_USE_DEDICATED},
    {EndpointUse::kShared, v1::ENDPOINT_USE_SHARED},
    {EndpointUse::kReserved, v1::ENDPOINT_USE_RESERVED},
};

inline constexpr EnumerationRow<Farewell, v1::Farewell> kFarewells[] = {
    {Farewell::kRelease, v1::FAREWELL_RELEASE},
    {Farewell::kClientEnded, v1::FAREWELL_CLIENT_ENDED},
    {Farewell::kReject, v1::FAREWELL_REJECT},
    {Farewell::kRefuse, v1::FAREWELL_REFUSE},
};

// 0 for a value without a row, which is a mistake that Read finds.
template <typename Core, typename Stored, size_t rows>
constexpr Stored ToProto(const EnumerationRow<Core, Stored> (&table)[rows], Core value) {
  for (const auto& row : table) {
    if (row.core == value) return row.stored;
  }
  return static_cast<Stored>(0);
}

template <typename Core, typename Stored, size_t rows>
Core Read(const Field& field, const EnumerationRow<Core, Stored> (&table)[rows], Stored value) {
  for (const auto& row : table) {
    if (row.stored == value) return row.core;
  }
  field.Complain(static_cast<int>(value), " has no meaning here");
  return table[0].core;
}

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_ENUMERATIONS_H_
