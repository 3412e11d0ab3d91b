// SPDX-License-Identifier: Apache-2.0

#include "tests/control/raw_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string_view>
#include <utility>
#include <variant>

#include "broker/control/services.h"
#include "broker/runtime/loop.h"
#include "tests/control/test_client.h"

namespace rdmabroker {

RawClient::RawClient(UniqueFd socket, std::unique_ptr<TlsClient> tls, const rpc::ClientConnection::Limits& limits)
    : socket_(std::move(socket)), tls_(std::move(tls)), connection_(limits) {
  if (tls_ != nullptr) SendRaw(tls_->TakeOutput());
}

rpc::CallId RawClient::Begin(const std::string& path) {
  const rpc::CallId call = connection_.Begin({.path = path}, Loop::Now());
  connection_.Read(call);
  return call;
}

void RawClient::Send(rpc::CallId call, const google::protobuf::Message& message) {
  connection_.Send(call, message.SerializeAsString());
}

rpc::CallId RawClient::Ask(const google::protobuf::Message& request) {
  const rpc::CallId call = Begin(PathOf(request.GetDescriptor()));
  Send(call, request);
  HalfClose(call);
  return call;
}

void RawClient::Flush() {
  if (tls_ != nullptr && !tls_->is_open()) return SendRaw(tls_->TakeOutput());
  while (connection_.HasOutput()) {
    const std::string output = connection_.TakeOutput();
    if (tls_ != nullptr) tls_->Send(output);
    SendRaw(tls_ == nullptr ? output : tls_->TakeOutput());
  }
}

void RawClient::SendRaw(const std::string& octets) {
  if (octets.empty()) return;
  EXPECT_EQ(::send(socket_.get(), octets.data(), octets.size(), MSG_NOSIGNAL), static_cast<ssize_t>(octets.size()));
}

std::string RawClient::Receive(absl::Duration patience) {
  std::string octets(65536, '\0');
  pollfd ready = {.fd = socket_.get(), .events = POLLIN};
  if (::poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) != 1) return "";
  const ssize_t size = ::recv(socket_.get(), octets.data(), octets.size(), 0);
  octets.resize(size > 0 ? static_cast<size_t>(size) : 0);
  if (octets.empty()) return "";
  if (tls_ != nullptr) tls_->Receive(octets);
  const std::string plain = tls_ == nullptr ? octets : std::exchange(tls_->received, "");
  Flush();
  for (std::string_view rest = plain; !rest.empty();) {
    const size_t read = connection_.Receive(rest, Loop::Now());
    if (read == 0) break;
    rest.remove_prefix(read);
    TakeEvents();
    Flush();
  }
  return octets;
}

void RawClient::TakeEvents() {
  while (const auto event = connection_.NextEvent()) {
    if (const auto* reply = std::get_if<rpc::ReplyArrived>(&*event)) {
      calls_[reply->call].replies.push_back(reply->reply);
      connection_.Read(reply->call);
    }
    if (const auto* finished = std::get_if<rpc::CallFinished>(&*event))
      calls_[finished->call].status = finished->status;
  }
}

NdkStatus NdkStatusOf(const rpc::Status& status) {
  return NdkStatusOf(grpc::Status(static_cast<grpc::StatusCode>(status.code), status.message, status.details));
}

RawSession::RawSession(RawClient& client, const std::vector<std::string>& features)
    : client_(client), call_(client.Begin(PathOf(v1::SessionRequest::descriptor()))) {
  v1::SessionRequest open;
  open.mutable_open()->set_api_minor(2);
  open.mutable_open()->mutable_features()->Add(features.begin(), features.end());
  Send(open);
}

SessionId RawSession::id() {
  const auto read = replies();
  return SessionId(read.empty() ? 0 : read.front().opened().session_id());
}

std::vector<v1::SessionReply> RawSession::replies() {
  std::vector<v1::SessionReply> replies;
  for (const std::string& octets : client_.replies(call_)) EXPECT_TRUE(replies.emplace_back().ParseFromString(octets));
  return replies;
}

int RawSession::events() {
  int events = 0;
  for (const v1::SessionReply& reply : replies()) events += reply.has_event() + reply.batch().events_size();
  return events;
}

int RawSession::answers() {
  int answers = 0;
  for (const v1::SessionReply& reply : replies()) answers += reply.batch().answers_size();
  return answers;
}

}  // namespace rdmabroker
