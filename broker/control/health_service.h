// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_HEALTH_SERVICE_H_
#define BROKER_CONTROL_HEALTH_SERVICE_H_

#include <memory>
#include <string>
#include <unordered_set>

#include "absl/time/time.h"
#include "broker/control/open_calls.h"
#include "broker/control/services.h"
#include "broker/runtime/loop.h"
#include "proto/grpc/health/v1/health.pb.h"

namespace rdmabroker {

// Serves grpc.health.v1.Health for "" and "rdmabroker.v1.Broker". Loop thread only.
class HealthService {
 public:
  // Of Watch. A node has a monitor or two, and a program whose gRPC looks after its channels' health has one for each
  // channel. Each takes some 20 KiB while it is open, and all are to be told of a stop in the 100 ms that the broker's
  // stop leaves for that.
  static constexpr CallBounds kBounds = {.of_caller = 256, .of_users = 768, .in_all = 1024};

  // `patience`: how long a watch may leave a message unread. All must outlive the services.
  HealthService(Services& services, Loop& loop, const absl::Duration& patience);
  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;

  // Health is SERVING from the start; from now on it is not, and who watches is told.
  void StopServing();

 private:
  class Watch;

  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& name) const;
  void Begin(const BegunCall& call);

  Loop& loop_;
  const absl::Duration& patience_;
  bool serving_ = true;
  std::unordered_set<Watch*> watches_;
  OpenCalls open_{"health", kBounds};  // Those.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_HEALTH_SERVICE_H_
