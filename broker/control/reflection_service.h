// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REFLECTION_SERVICE_H_
#define BROKER_CONTROL_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "broker/control/unary_call.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace rdmabroker {

// Serves grpc.reflection.v1alpha for the services of these full names: lists them, and gives the .proto files that the
// program was built from. `context` and `service` outlive the server.
void ServeReflection(UnaryContext& context, grpc::reflection::v1alpha::ServerReflection::AsyncService& service,
                     const std::vector<std::string>& services);

// The answer to one question.
grpc::reflection::v1alpha::ServerReflectionResponse Reflect(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request, const std::vector<std::string>& services);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REFLECTION_SERVICE_H_
