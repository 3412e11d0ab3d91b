// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_UNARY_CALL_H_
#define BROKER_CONTROL_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "broker/control/control_socket.h"
#include "broker/control/grpc_loop.h"
#include "broker/monitoring/metrics.h"

namespace rdmabroker {

// What every call of a service needs to be served.
struct UnaryContext {
  GrpcLoop& loop;
  ControlSocket& socket;
  Metrics& metrics;
};

// Answers one call: fills the reply in, or says why not. The caller is null for one that did not come over the control
// socket.
template <typename Request, typename Reply>
using UnaryHandler = std::function<grpc::Status(const Caller* caller, const Request& request, Reply* reply)>;

// Serves `method` of `service` on the loop thread until the server shuts down. One call waits for gRPC at a time;
// others queue there, bounded by its streams per connection and its memory quota.
template <typename Service, typename Base, typename Request, typename Reply>
void ServeUnary(UnaryContext& context, Service& service,
                void (Base::*method)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Reply>*,
                                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
                UnaryHandler<Request, Reply> handler) {
  struct Call {
    grpc::ServerContext context;
    Request request;
    grpc::ServerAsyncResponseWriter<Reply> writer{&context};
  };
  auto call = std::make_shared<Call>();
  auto* queue = context.loop.queue();
  Call* waiting = call.get();
  (service.*method)(&waiting->context, &waiting->request, &waiting->writer, queue, queue,
                    context.loop.Tag([&context, &service, method, call, handler = std::move(handler)](bool ok) {
                      if (!ok) return;
                      ServeUnary(context, service, method, handler);
                      Reply reply;
                      const auto caller = context.socket.CallerOfCall(call->context.peer());
                      const grpc::Status status = handler(caller.get(), call->request, &reply);
                      call->writer.Finish(reply, status, context.loop.Tag([call](bool) {}));
                    }));
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_UNARY_CALL_H_
