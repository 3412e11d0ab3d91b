// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_INSPECTION_SERVICE_H_
#define BROKER_CONTROL_INSPECTION_SERVICE_H_

#include "broker/control/broker.h"
#include "broker/control/unary_call.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"

namespace rdmabroker {

void ServeInspection(UnaryContext& context, Broker& broker, v1::Inspection::AsyncService& service);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_INSPECTION_SERVICE_H_
