// SPDX-License-Identifier: Apache-2.0

#include "broker/control/health_service.h"

#include <algorithm>

namespace rdmabroker {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call. It has at most two things to say: what is, and that serving has stopped; then it ends, for a stream
// that is left open holds the server's shutdown up.
struct HealthService::Watcher : std::enable_shared_from_this<HealthService::Watcher> {
  explicit Watcher(GrpcLoop& event_loop) : loop(event_loop) {}

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
  auto watcher = std::make_shared<Watcher>(context_.loop);
  auto* queue = context_.loop.queue();
  // Until the client is gone or the server shuts down, the call's end is the only thing that is waited for.
  void* done = context_.loop.Tag([watcher](bool) {});
  watcher->context.AsyncNotifyWhenDone(done);
  service_.RequestWatch(&watcher->context, &watcher->request, &watcher->writer, queue, queue,
                        context_.loop.Tag([this, watcher, done](bool ok) {
                          if (!ok) return context_.loop.Drop(done);
                          ServeWatch();
                          std::shared_ptr<const Caller> caller;
                          const grpc::Status admitted = context_.Admit(watcher->context, "HealthWatch", &caller);
                          if (!admitted.ok()) return watcher->Finish(admitted);
                          std::erase_if(watchers_, [](const auto& weak) { return weak.expired(); });
                          watchers_.push_back(watcher);
                          watcher->last = !serving_;
                          watcher->Say(StatusOf(watcher->request.service()));
                        }));
}

void HealthService::StopServing() {
  serving_ = false;
  for (const auto& weak : watchers_) {
    const auto watcher = weak.lock();
    if (!watcher) continue;
    watcher->last = true;
    watcher->Say(StatusOf(watcher->request.service()));
  }
}

}  // namespace rdmabroker
