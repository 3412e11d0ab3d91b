// SPDX-License-Identifier: Apache-2.0

#include "broker/control/health_service.h"

#include <optional>
#include <utility>

#include "broker/control/status_mapping.h"

namespace rdmabroker {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call. It has at most two things to say: what is, and that serving has stopped; then it ends, for a stream
// that is left open holds the server's shutdown up.
struct HealthService::Call : std::enable_shared_from_this<HealthService::Call> {
  explicit Call(GrpcLoop& event_loop) : loop(event_loop) {}

  void Say(HealthCheckResponse::ServingStatus status) {
    if (writing) {
      next = status;
      return;
    }
    writing = true;
    response.set_status(status);
    writer.Write(response, loop.Tag([self = shared_from_this()](bool ok) {
      self->writing = false;
      if (!ok) return;
      if (self->next) return self->Say(*std::exchange(self->next, std::nullopt));
      if (self->last) self->Finish({grpc::StatusCode::UNAVAILABLE, "the broker is stopping"});
    }));
  }

  void Finish(const grpc::Status& status) {
    writer.Finish(status, loop.Tag([self = shared_from_this()](bool) {}));
  }

  GrpcLoop& loop;
  grpc::ServerContext context;
  HealthCheckRequest request;
  HealthCheckResponse response;
  grpc::ServerAsyncWriter<HealthCheckResponse> writer{&context};
  bool writing = false;
  bool last = false;  // What is being said is the last.
  std::optional<HealthCheckResponse::ServingStatus> next;
  std::string who;  // Once it counts.
};

HealthService::HealthService(UnaryContext& context, grpc::health::v1::Health::AsyncService& service)
    : context_(context), service_(service) {
  const UnaryHandler<HealthCheckRequest, HealthCheckResponse> check =
      [this](const Caller*, const HealthCheckRequest& request, HealthCheckResponse* response) {
        response->set_status(StatusOf(request.service()));
        if (response->status() != HealthCheckResponse::SERVICE_UNKNOWN) return grpc::Status::OK;
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "service: unknown; ask for \"\" or \"rdmabroker.v1.Broker\"");
      };
  ServeUnary(context, service, &grpc::health::v1::Health::AsyncService::RequestCheck, check);
  ServeWatch();
}

HealthCheckResponse::ServingStatus HealthService::StatusOf(const std::string& name) const {
  if (!name.empty() && name != "rdmabroker.v1.Broker") return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::ServeWatch() {
  auto call = std::make_shared<Call>(context_.loop);
  auto* queue = context_.loop.queue();
  void* done = context_.loop.Tag([this, call](bool) { Forget(call); });
  call->context.AsyncNotifyWhenDone(done);
  service_.RequestWatch(&call->context, &call->request, &call->writer, queue, queue,
                        context_.loop.Tag([this, call, done](bool ok) {
                          if (!ok) return context_.loop.Drop(done);
                          ServeWatch();
                          Begin(call);
                        }));
}

void HealthService::Begin(const std::shared_ptr<Call>& call) {
  std::shared_ptr<const Caller> caller;
  const grpc::Status admitted = context_.Admit(call->context, "HealthWatch", &caller);
  if (!admitted.ok()) return call->Finish(admitted);
  if (const auto refusal = open_.RefuseTo(caller.get())) return call->Finish(GrpcStatusOf(*refusal));
  call->who = WhoIs(*caller);
  open_.Enter(call->who);
  watches_.insert(call);
  call->last = !serving_;
  call->Say(StatusOf(call->request.service()));
}

void HealthService::Forget(const std::shared_ptr<Call>& call) {
  if (watches_.erase(call) == 1) open_.Leave(call->who);
}

void HealthService::StopServing() {
  serving_ = false;
  for (const auto& call : watches_) {
    call->last = true;
    call->Say(StatusOf(call->request.service()));
  }
}

}  // namespace rdmabroker
