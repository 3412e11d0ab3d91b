// SPDX-License-Identifier: Apache-2.0

#include "broker/control/health_service.h"

#include <optional>
#include <utility>

#include "broker/control/server_stream.h"
#include "broker/control/status_mapping.h"
#include "broker/control/unary_call.h"

namespace rdmabroker {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call. It sends at most two states: the first, and the one when serving stops. Then it ends, because an open
// stream delays the broker's stop.
class HealthService::Watch final : public ServerStream {
 public:
  Watch(HealthService& service, const BegunCall& call, std::string name, std::string who)
      : ServerStream(call.connection, call.id, service.loop_, service.patience_),
        service_(service),
        name_(std::move(name)),
        who_(std::move(who)) {}

  // Sends the service's state.
  void Say() {
    if (writing()) {
      again_ = true;
      return;
    }
    const bool last = !service_.serving_;
    HealthCheckResponse response;
    response.set_status(service_.StatusOf(name_));
    Write(response);
    if (last) Finish({.code = absl::StatusCode::kUnavailable, .message = "the broker is stopping"});
  }

  const std::string& who() const { return who_; }

  void Ended(std::optional<rpc::CallLost::Why>) override {
    service_.watches_.erase(this);
    service_.open_.Leave(who_);
  }

 private:
  // The call's only request arrives with the call.
  void TakeMessage(const std::string&) override {}
  void TakeHalfClose() override {}
  void Written() override {
    if (std::exchange(again_, false)) Say();
  }
  void Unread() override {}

  HealthService& service_;
  const std::string name_;
  const std::string who_;
  bool again_ = false;  // The state has changed while a message is under way.
};

HealthService::HealthService(Services& services, Loop& loop, const absl::Duration& patience)
    : loop_(loop), patience_(patience) {
  const UnaryHandler<HealthCheckRequest, HealthCheckResponse> check =
      [this](const Caller&, const HealthCheckRequest& request, HealthCheckResponse* response) {
        response->set_status(StatusOf(request.service()));
        if (response->status() != HealthCheckResponse::SERVICE_UNKNOWN) return rpc::Status();
        return rpc::Status{.code = absl::StatusCode::kNotFound,
                           .message = "service: unknown; ask for \"\" or \"rdmabroker.v1.Broker\""};
      };
  // Both methods take the same request.
  ServeSlowUnary(services, "/grpc.health.v1.Health/Check", AtOnce(check));
  services.Add("/grpc.health.v1.Health/Watch", rpc::Requests::kOne,
               {.begin = [this](const BegunCall& call) { Begin(call); }});
}

HealthCheckResponse::ServingStatus HealthService::StatusOf(const std::string& name) const {
  if (!name.empty() && name != "rdmabroker.v1.Broker") return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Begin(const BegunCall& call) {
  std::shared_ptr<const Caller> caller;
  HealthCheckRequest request;
  rpc::Status refusal = BeginCall(call, "HealthWatch", &caller, &request);
  if (refusal.ok()) {
    if (const auto too_many = open_.RefuseTo(*caller)) refusal = RpcStatusOf(*too_many);
  }
  if (!refusal.ok()) return call.connection.Finish(call.id, refusal);
  const auto watch = std::make_shared<Watch>(*this, call, request.service(), WhoIs(*caller));
  open_.Enter(watch->who());
  watches_.insert(watch.get());
  call.connection.Open(call.id, watch);
  watch->Say();
}

void HealthService::StopServing() {
  serving_ = false;
  for (Watch* const watch : watches_) watch->Say();
}

}  // namespace rdmabroker
