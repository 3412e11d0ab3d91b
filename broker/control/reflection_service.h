// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REFLECTION_SERVICE_H_
#define BROKER_CONTROL_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/open_calls.h"
#include "broker/control/unary_call.h"
#include "broker/runtime/watcher.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace rdmabroker {

// Serves grpc.reflection.v1alpha for the services of these full names: lists them, and gives the .proto files that the
// program was built from. Loop thread only.
class ReflectionService {
 public:
  // A tool has one call, for as long as it asks. An answer that waits to be read is of 16 KiB, and has the question in
  // it, of 64 KiB at most.
  static constexpr CallBounds kBounds = {.of_caller = 8, .of_users = 24, .in_all = 32};

  // `patience`: how long a call may ask nothing, and how long it may leave an answer unread.
  ReflectionService(UnaryContext& context, Watcher& watcher,
                    grpc::reflection::v1alpha::ServerReflection::AsyncService& service,
                    std::vector<std::string> services, absl::Duration patience);
  ReflectionService(const ReflectionService&) = delete;
  ReflectionService& operator=(const ReflectionService&) = delete;

  // From the next question or answer on.
  void SetPatience(absl::Duration patience) { patience_ = patience; }

 private:
  class Call;

  void Serve();

  UnaryContext& context_;
  Watcher& watcher_;
  grpc::reflection::v1alpha::ServerReflection::AsyncService& service_;
  const std::vector<std::string> services_;
  absl::Duration patience_;
  OpenCalls open_{"reflection", kBounds};
};

// The answer to one question.
grpc::reflection::v1alpha::ServerReflectionResponse Reflect(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request, const std::vector<std::string>& services);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REFLECTION_SERVICE_H_
