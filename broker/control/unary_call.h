// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_UNARY_CALL_H_
#define BROKER_CONTROL_UNARY_CALL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "broker/control/caller.h"
#include "broker/control/served_connection.h"
#include "broker/control/services.h"
#include "proto/rpc/status.h"

namespace rdmabroker {

// Answers one call at once: fills the reply in, or says why not.
template <typename Request, typename Reply>
using UnaryHandler = std::function<rpc::Status(const Caller& caller, const Request& request, Reply* reply)>;

// Ends one call, once: now or later, on the loop thread.
template <typename Reply>
using UnaryAnswer = std::function<void(const rpc::Status& status, const Reply& reply)>;
// As UnaryHandler, for what takes time. The caller is there until it returns.
template <typename Request, typename Reply>
using SlowUnaryHandler =
    std::function<void(const Caller& caller, const Request& request, const UnaryAnswer<Reply>& answer)>;

// The call's name in the contract: "ListSessionsRequest" asks for ListSessions.
template <typename Request>
absl::string_view CallOf() {
  return absl::StripSuffix(Request::descriptor()->name(), "Request");
}

// Reads a client's message. The status is not OK if the octets are not such a message.
template <typename Request>
rpc::Status ReadMessage(const std::string& octets, Request* request) {
  if (request->ParseFromString(octets)) return {};
  return {.code = absl::StatusCode::kInternal,
          .message = absl::StrCat("The message is not a valid ", Request::descriptor()->full_name(), ".")};
}

// Identifies the caller of a new call and reads its request. If the status is not OK, the call must end with it.
template <typename Request>
rpc::Status BeginCall(const BegunCall& call, absl::string_view action, std::shared_ptr<const Caller>* caller,
                      Request* request) {
  const rpc::Status admitted = call.connection.port().Admit(call.connection, action, caller);
  return admitted.ok() ? ReadMessage(call.request, request) : admitted;
}

// Serves the method at `path` on the loop thread. `cost` is Services::Method's.
template <typename Request, typename Reply>
void ServeSlowUnary(Services& services, const std::string& path, SlowUnaryHandler<Request, Reply> handler,
                    int64_t cost = 1) {
  const auto begin = [handler = std::move(handler)](const BegunCall& call) {
    std::shared_ptr<const Caller> caller;
    Request request;
    const rpc::Status begun = BeginCall(call, CallOf<Request>(), &caller, &request);
    if (!begun.ok()) return call.connection.Finish(call.id, begun);
    handler(*caller, request,
            [weak = call.connection.weak_from_this(), id = call.id](const rpc::Status& status, const Reply& reply) {
              const auto connection = weak.lock();
              if (!connection) return;
              if (status.ok()) connection->Send(id, reply.SerializeAsString());
              connection->Finish(id, status);
            });
  };
  services.Add(path, rpc::Requests::kOne, {.begin = begin, .cost = cost});
}

// Serves the contract's method that takes this request.
template <typename Request, typename Reply>
void ServeSlowUnary(Services& services, SlowUnaryHandler<Request, Reply> handler, int64_t cost = 1) {
  ServeSlowUnary(services, PathOf(Request::descriptor()), std::move(handler), cost);
}

// The same handler, whose answer is there at once.
template <typename Request, typename Reply>
SlowUnaryHandler<Request, Reply> AtOnce(UnaryHandler<Request, Reply> handler) {
  return
      [handler = std::move(handler)](const Caller& caller, const Request& request, const UnaryAnswer<Reply>& answer) {
        Reply reply;
        const rpc::Status status = handler(caller, request, &reply);
        answer(status, reply);
      };
}

template <typename Request, typename Reply>
void ServeUnary(Services& services, UnaryHandler<Request, Reply> handler, int64_t cost = 1) {
  ServeSlowUnary(services, AtOnce(std::move(handler)), cost);
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_UNARY_CALL_H_
