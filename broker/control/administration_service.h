// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
#define BROKER_CONTROL_ADMINISTRATION_SERVICE_H_

#include <functional>

#include "broker/control/broker.h"
#include "broker/control/unary_call.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"

namespace rdmabroker {

// `restart` begins to let another process take this one's place; false where nobody would start it.
void ServeAdministration(UnaryContext& context, Broker& broker, v1::Administration::AsyncService& service,
                         std::function<bool()> restart);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
