// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_HEALTH_SERVICE_H_
#define BROKER_CONTROL_HEALTH_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "broker/control/unary_call.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"

namespace rdmabroker {

// grpc.health.v1.Health for "" and "rdmabroker.v1.Broker", as an asynchronous service: gRPC's own is a callback service
// and would bring a second poller into the process.
class HealthService {
 public:
  HealthService(UnaryContext& context, grpc::health::v1::Health::AsyncService& service);

  // Health is SERVING from the start; from now on it is not, and who watches is told.
  void StopServing();

 private:
  struct Watcher;

  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& name) const;
  void ServeWatch();

  UnaryContext& context_;
  grpc::health::v1::Health::AsyncService& service_;
  bool serving_ = true;
  std::vector<std::weak_ptr<Watcher>> watchers_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_HEALTH_SERVICE_H_
