// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TRANSPORT_LIMITS_H_
#define BROKER_CONTROL_TRANSPORT_LIMITS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>

namespace rdmabroker {

// How much of gRPC's memory and time the clients of the control socket can take: each number stands with its reason in
// transport_limits.cc. `unanswered` are the requests that a client may have unanswered (Limits::answers_kept).
void SetTransportLimits(grpc::ServerBuilder& builder, uint32_t unanswered);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TRANSPORT_LIMITS_H_
