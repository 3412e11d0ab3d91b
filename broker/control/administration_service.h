// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
#define BROKER_CONTROL_ADMINISTRATION_SERVICE_H_

#include "broker/control/broker.h"
#include "broker/control/unary_call.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"

namespace rdmabroker {

void ServeAdministration(UnaryContext& context, Broker& broker, v1::Administration::AsyncService& service);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
