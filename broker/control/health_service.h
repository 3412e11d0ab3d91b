// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_HEALTH_SERVICE_H_
#define BROKER_CONTROL_HEALTH_SERVICE_H_

#include <memory>
#include <string>
#include <unordered_set>

#include "broker/control/open_calls.h"
#include "broker/control/unary_call.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"

namespace rdmabroker {

// grpc.health.v1.Health for "" and "rdmabroker.v1.Broker", as an asynchronous service: gRPC's own is a callback service
// and would bring a second poller into the process. Loop thread only.
class HealthService {
 public:
  // Of Watch. A node has a monitor or two, and a program whose gRPC looks after its channels' health has one for each
  // channel. Each takes some 20 KiB while it is open, and all are to be told of a stop in the 100 ms that the server's
  // shutdown leaves for that.
  static constexpr CallBounds kBounds = {.of_caller = 256, .of_users = 768, .in_all = 1024};

  HealthService(UnaryContext& context, grpc::health::v1::Health::AsyncService& service);

  // Health is SERVING from the start; from now on it is not, and who watches is told.
  void StopServing();

 private:
  struct Call;

  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& name) const;
  void ServeWatch();
  void Begin(const std::shared_ptr<Call>& call);
  void Forget(const std::shared_ptr<Call>& call);

  UnaryContext& context_;
  grpc::health::v1::Health::AsyncService& service_;
  bool serving_ = true;
  std::unordered_set<std::shared_ptr<Call>> watches_;
  OpenCalls open_{"health", kBounds};  // Those.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_HEALTH_SERVICE_H_
