// SPDX-License-Identifier: Apache-2.0

#include "broker/control/server_stream.h"

#include <utility>

#include "broker/control/served_connection.h"

namespace rdmabroker {

ServerStream::ServerStream(ServedConnection& connection, rpc::CallId call, Loop& loop, const absl::Duration& patience)
    : connection_(connection), call_(call), loop_(loop), patience_(patience) {}

ServerStream::~ServerStream() { loop_.CancelTimer(unread_); }

void ServerStream::Arrived(const std::optional<std::string>& message) {
  if (finishing()) return;
  if (message) {
    TakeMessage(*message);
  } else {
    TakeHalfClose();
  }
}

void ServerStream::Read() { connection_.Read(call_); }

void ServerStream::Write(const google::protobuf::MessageLite& reply) {
  writing_ = true;
  unread_ = loop_.StartTimer(Loop::Now() + patience_, [this] {
    unread_ = TimerId::kNone;
    Abandon();
  });
  connection_.Send(call_, reply.SerializeAsString());
}

void ServerStream::Sent() {
  writing_ = false;
  loop_.CancelTimer(std::exchange(unread_, TimerId::kNone));
  if (finishing_) return connection_.Finish(call_, *finishing_);
  Written();
}

void ServerStream::Finish(rpc::Status status) {
  if (finishing_) return;
  finishing_ = std::move(status);
  if (!writing_) connection_.Finish(call_, *finishing_);
}

void ServerStream::InTurn(std::function<void()> task) {
  connection_.InTurn([weak = weak_from_this(), this, task = std::move(task)] {
    if (const auto self = weak.lock(); self && !finishing()) task();
  });
}

void ServerStream::Charge(int64_t requests) { connection_.Charge(requests); }

void ServerStream::Owe(int64_t requests) { connection_.Owe(requests); }

void ServerStream::Abandon() {
  Unread();
  connection_.Abandon(call_);
}

}  // namespace rdmabroker
