// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_UNARY_CALL_H_
#define BROKER_CONTROL_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "broker/control/control_socket.h"
#include "broker/control/gate.h"
#include "broker/control/grpc_loop.h"
#include "broker/control/remote_access.h"
#include "broker/control/remote_callers.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/watcher.h"

namespace rdmabroker {

// What every call of a service needs to be served.
struct UnaryContext {
  GrpcLoop& loop;
  ControlSocket& socket;
  RemoteAccess& remotes;
  Gate& gate;
  Metrics& metrics;

  // Who makes the call, of this name in the contract. Asked once, at its start. An error is the call's end; otherwise
  // the caller is null where it has gone already.
  grpc::Status Admit(const grpc::ServerContext& call, absl::string_view action, std::shared_ptr<const Caller>* caller) {
    if (RemoteCallers::IsRemote(call)) return AdmitRemote(call, action, caller);
    *caller = socket.CallerOfCall(call.peer());
    return grpc::Status::OK;
  }

  // Has it logged that who calls over TCP may not do this; null: nobody can tell who it is.
  void LogRefusal(const grpc::ServerContext& call, absl::string_view action, const Caller* caller,
                  absl::string_view rule = "tcp") {
    AuditEntry entry{.action = action, .caller = caller, .rule = std::string(rule)};
    if (const auto peer = TcpPeerOf(call.peer())) entry.use.destination = peer->ip;
    gate.Administered(false, entry, Watcher::Now());
  }

 private:
  grpc::Status AdmitRemote(const grpc::ServerContext& call, absl::string_view action,
                           std::shared_ptr<const Caller>* caller) {
    Caller remote;
    grpc::Status admitted = remotes.Admit(call, &remote);
    if (admitted.ok()) {
      *caller = std::make_shared<const Caller>(std::move(remote));
      return admitted;
    }
    const bool revoked = admitted.error_code() == grpc::StatusCode::UNAUTHENTICATED;
    metrics.CountRefusedCaller(revoked ? CallerRefusal::kRevoked : CallerRefusal::kNotNamed);
    LogRefusal(call, action, remote.IsRemote() ? &remote : nullptr, revoked ? "tcp.revoked" : "tcp");
    return admitted;
  }
};

// Answers one call: fills the reply in, or says why not. The caller is null for one that has gone.
template <typename Request, typename Reply>
using UnaryHandler = std::function<grpc::Status(const Caller* caller, const Request& request, Reply* reply)>;

// Ends one call, once: now or later, on the loop thread. One that nobody ends holds the server's shutdown up.
template <typename Reply>
using UnaryAnswer = std::function<void(const grpc::Status& status, const Reply& reply)>;
// As UnaryHandler, for what takes time. The caller is there until it returns.
template <typename Request, typename Reply>
using SlowUnaryHandler =
    std::function<void(const Caller* caller, const Request& request, const UnaryAnswer<Reply>& answer)>;

template <typename Base, typename Request, typename Reply>
using UnaryMethod = void (Base::*)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Reply>*,
                                   grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);

// By its name in the contract: "ListSessionsRequest" asks for ListSessions.
template <typename Request>
absl::string_view CallOf() {
  return absl::StripSuffix(Request::descriptor()->name(), "Request");
}

// Serves `method` of `service` on the loop thread until the server shuts down. One call waits for gRPC at a time;
// others queue there, bounded by its streams per connection and its memory quota.
template <typename Service, typename Base, typename Request, typename Reply>
void ServeSlowUnary(UnaryContext& context, Service& service, UnaryMethod<Base, Request, Reply> method,
                    SlowUnaryHandler<Request, Reply> handler) {
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
                      ServeSlowUnary(context, service, method, handler);
                      const UnaryAnswer<Reply> answer = [&context, call](const grpc::Status& status,
                                                                         const Reply& reply) {
                        call->writer.Finish(reply, status, context.loop.Tag([call](bool) {}));
                      };
                      std::shared_ptr<const Caller> caller;
                      const grpc::Status admitted = context.Admit(call->context, CallOf<Request>(), &caller);
                      if (!admitted.ok()) return answer(admitted, Reply());
                      handler(caller.get(), call->request, answer);
                    }));
}

// The same handler, whose answer is there at once.
template <typename Request, typename Reply>
SlowUnaryHandler<Request, Reply> AtOnce(UnaryHandler<Request, Reply> handler) {
  return
      [handler = std::move(handler)](const Caller* caller, const Request& request, const UnaryAnswer<Reply>& answer) {
        Reply reply;
        const grpc::Status status = handler(caller, request, &reply);
        answer(status, reply);
      };
}

template <typename Service, typename Base, typename Request, typename Reply>
void ServeUnary(UnaryContext& context, Service& service, UnaryMethod<Base, Request, Reply> method,
                UnaryHandler<Request, Reply> handler) {
  ServeSlowUnary(context, service, method, AtOnce(std::move(handler)));
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_UNARY_CALL_H_
