// SPDX-License-Identifier: Apache-2.0

#include "client/grpc_transport.h"

#include <algorithm>
#include <utility>

#include "client/control_socket.h"
#include "client/rpc_status.h"

namespace rdmabroker::client {
namespace {

bool TakesRequests(const v1::SessionOpened& opened) {
  const auto& features = opened.features();
  return std::find(features.begin(), features.end(), kRequestsOnStream) != features.end();
}

}  // namespace

GrpcTransport::GrpcTransport(std::shared_ptr<CompletionThread> thread, std::shared_ptr<grpc::Channel> channel,
                             std::string control_socket, Handlers handlers)
    : thread_(std::move(thread)),
      channel_(std::move(channel)),
      control_socket_(std::move(control_socket)),
      handlers_(std::move(handlers)),
      stub_(v1::Broker::NewStub(channel_)) {}

void GrpcTransport::Start(const v1::SessionRequest& first) {
  stream_ = SessionStream::Start(thread_, stub_.get(), first,
                                 {.on_sent = handlers_.on_sent,
                                  .on_reply = [this](const v1::SessionReply& reply) { HandleReply(reply); },
                                  .on_end = [this](const grpc::Status& status) { HandleEnd(status); }});
}

bool GrpcTransport::Send(const v1::SessionRequest& message) {
  if (message.has_requests() && unary_ != nullptr) {
    unary_->Make(message.requests());
    return true;
  }
  stream_->Send(message);
  return false;
}

void GrpcTransport::Abandon() {
  unary_ = nullptr;
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Abandon();
}

bool GrpcTransport::SomebodyListens() { return client::SomebodyListens(control_socket_); }

Outcome GrpcTransport::NoBroker() { return client::NoBroker(control_socket_); }

void GrpcTransport::HandleReply(const v1::SessionReply& reply) {
  if (reply.has_opened() && !TakesRequests(reply.opened())) {
    unary_ = std::make_unique<UnaryRequests>(thread_, channel_, reply.opened().session_id(), handlers_.on_reply);
  }
  handlers_.on_reply(reply);
}

void GrpcTransport::HandleEnd(const grpc::Status& status) {
  unary_ = nullptr;
  stream_ = nullptr;
  handlers_.on_end({.outcome = FailureDetail(status), .gone = HasGone(status), .text = status.error_message()});
}

}  // namespace rdmabroker::client
