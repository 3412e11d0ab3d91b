// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_BROKER_SERVICE_H_
#define BROKER_CONTROL_BROKER_SERVICE_H_

#include "broker/control/broker.h"
#include "broker/control/unary_call.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"

namespace rdmabroker {

// Serves the requests of rdmabroker.v1.Broker; its stream is SessionStream's.
void ServeRequests(UnaryContext& context, Broker& broker, v1::Broker::AsyncService& service);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_BROKER_SERVICE_H_
