// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_REQUEST_NAMES_H_
#define BROKER_CORE_REQUEST_NAMES_H_

#include <iterator>
#include <variant>

#include "broker/core/requests.h"

namespace rdmabroker {

// The contract's names, by the alternative of Request.
inline constexpr const char* kRequestNames[] = {
    "OpenAdapter",
    "CloseAdapter",
    "CreateListener",
    "Listen",
    "ControlConnectEvents",
    "CloseListener",
    "CreateSharedEndpoint",
    "CloseSharedEndpoint",
    "ReservePort",
    "ReleasePort",
    "CreateConnector",
    "Connect",
    "ConnectWithSharedEndpoint",
    "CompleteConnect",
    "Accept",
    "Reject",
    "Disconnect",
    "GetConnectionData",
    "ReportConnectionEnd",
    "CloseConnector",
};
static_assert(std::size(kRequestNames) == std::variant_size_v<Request::variant>);

}  // namespace rdmabroker

#endif  // BROKER_CORE_REQUEST_NAMES_H_
