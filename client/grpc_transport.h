// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_GRPC_TRANSPORT_H_
#define CLIENT_GRPC_TRANSPORT_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/completion_thread.h"
#include "client/protocol/transport.h"
#include "client/session_stream.h"
#include "client/unary_requests.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"

namespace rdmabroker::client {

// A session's streams over gRPC. Where the broker takes no requests on them, they are made by RPCs. On the completion
// thread only.
class GrpcTransport final : public Transport {
 public:
  struct Handlers {
    std::function<void()> on_sent;
    std::function<void(const v1::SessionReply&)> on_reply;
    std::function<void(const StreamEnd&)> on_end;
  };

  GrpcTransport(std::shared_ptr<CompletionThread> thread, std::shared_ptr<grpc::Channel> channel,
                std::string control_socket, Handlers handlers);
  ~GrpcTransport() override { Abandon(); }

  void Start(const v1::SessionRequest& first) override;
  bool Send(const v1::SessionRequest& message) override;
  void Abandon() override;
  bool SomebodyListens() override;
  Outcome NoBroker() override;

 private:
  void HandleReply(const v1::SessionReply& reply);
  void HandleEnd(const grpc::Status& status);

  const std::shared_ptr<CompletionThread> thread_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string control_socket_;
  const Handlers handlers_;
  const std::unique_ptr<v1::Broker::Stub> stub_;
  std::shared_ptr<SessionStream> stream_;
  std::unique_ptr<UnaryRequests> unary_;  // Where the broker wants it so.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_GRPC_TRANSPORT_H_
