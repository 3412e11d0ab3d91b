// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/client_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"

namespace rdmabroker::rpc {
namespace {

using absl::StatusCode;

// A server begins no streams.
Http2::Settings SettingsOf(const ClientConnection::Limits& limits) {
  return {.streams = 0, .stream_window = limits.window, .header_block = limits.header_block};
}

}  // namespace

ClientConnection::ClientConnection(const Limits& limits)
    : limits_(limits),
      http2_(Http2::End::kClient, SettingsOf(limits), *this, nullptr),
      inbound_({.longest = limits.reply, .window = limits.window, .long_messages = std::numeric_limits<size_t>::max()},
               [this](CallId call, size_t octets) { http2_.GiveBack(call, octets); }) {}

size_t ClientConnection::Receive(std::string_view octets, absl::Time now) {
  const size_t read = http2_.Receive(octets, now);
  if (http2_.IsTerminated()) Disconnected();
  return read;
}

std::string ClientConnection::TakeOutput() {
  std::string output = http2_.TakeOutput();
  if (http2_.IsTerminated()) Disconnected();
  return output;
}

void ClientConnection::Disconnected() {
  for (auto& [id, call] : calls_) {
    Fail(id, {.code = StatusCode::kUnavailable, .message = "The connection to the server has ended."});
  }
}

ClientConnection::Call* ClientConnection::FindCall(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

CallId ClientConnection::Begin(const Start& start, absl::Time now) {
  Headers headers = {{":method", "POST"},   {":scheme", "http"},
                     {":path", start.path}, {":authority", start.authority},
                     {"te", "trailers"},    {"content-type", "application/grpc"}};
  if (start.timeout) {
    headers.push_back({"grpc-timeout", WriteTimeout(std::max(*start.timeout, absl::Nanoseconds(1)))});
  }
  headers.insert(headers.end(), start.metadata.begin(), start.metadata.end());
  const CallId id = http2_.Request(headers);
  if (id == 0) return 0;
  calls_[id] = {};
  if (start.timeout) deadlines_.Add(id, now + *start.timeout);
  inbound_.Add(id);
  return id;
}

void ClientConnection::Send(CallId id, std::string_view request) {
  const Call* call = FindCall(id);
  if (call != nullptr && !call->status) http2_.Send(id, Framed(request));
}

void ClientConnection::EndRequests(CallId id) { http2_.EndData(id, {}); }

void ClientConnection::Read(CallId id) {
  Call* call = FindCall(id);
  if (call == nullptr) return;
  call->reads = true;
  Note(id, *call);
}

void ClientConnection::Cancel(CallId id) {
  if (FindCall(id) == nullptr) return;
  DropReplies(id);
  Break(id, {.code = StatusCode::kCancelled, .message = "The call was cancelled."});
}

void ClientConnection::HeadersArrived(CallId id, Headers headers, size_t) {
  Call* call = FindCall(id);
  if (call == nullptr || call->status) return;
  int http = 0;
  const std::string status(Find(headers, ":status").value_or(""));
  if (!AreWellFormed(headers) || !absl::SimpleAtoi(status, &http)) {
    return Break(id, {.code = StatusCode::kInternal, .message = "The server's headers are too long or malformed."});
  }
  if (http < 200) return;
  const bool grpc = IsGrpc(Find(headers, "content-type").value_or(""));
  if (http != 200) return Break(id, StatusOfHttp(http));
  if (!grpc) return Break(id, {.code = StatusCode::kUnknown, .message = "The server does not answer as gRPC."});
  call->answered = true;
  if (Find(headers, "grpc-status")) call->status = StatusOf(headers);
}

void ClientConnection::TrailersArrived(CallId id, Headers trailers, size_t octets, bool last) {
  Call* call = FindCall(id);
  if (call == nullptr || call->status) return;
  if (!call->answered) return HeadersArrived(id, std::move(trailers), octets);
  if (!last || octets > limits_.header_block) {
    return Break(id, {.code = StatusCode::kInternal, .message = "The server's trailers are too long or not its last."});
  }
  call->status = StatusOf(trailers);
}

void ClientConnection::DataArrived(CallId id, std::string_view data) {
  Call* call = FindCall(id);
  if (call == nullptr || call->status) return http2_.GiveBack(id, data.size());
  if (!call->answered) {
    return Break(id, {.code = StatusCode::kInternal, .message = "The server sends data without headers."});
  }
  inbound_.Append(id, data);
  BreakFault(id);
  Note(id, *call);
}

void ClientConnection::BreakFault(CallId id) {
  const MessageFault fault = inbound_.of(id).fault();
  if (fault != MessageFault::kNone) Break(id, StatusOfFault(fault, "reply", limits_.reply));
}

void ClientConnection::PeerIsDone(CallId id) {
  Call* call = FindCall(id);
  if (call == nullptr) return;
  if (!call->status) call->status = StatusOf({});
  Note(id, *call);
}

void ClientConnection::AllSent(CallId id) {
  Call* call = FindCall(id);
  if (call == nullptr) return;
  call->requests_sent = true;
  Note(id, *call);
}

void ClientConnection::Closed(CallId id, uint32_t error) {
  Call* call = FindCall(id);
  if (call == nullptr) return;
  Fail(id, StatusOfReset(error));
  Note(id, *call);
}

void ClientConnection::PeerDrains() {
  for (const auto& [id, call] : calls_) {
    if (!call.status && !http2_.HasBegun(id)) {
      Break(id, {.code = StatusCode::kUnavailable, .message = "The server takes no new calls on this connection."});
    }
  }
}

void ClientConnection::DropReplies(CallId id) {
  inbound_.Remove(id);
  inbound_.Add(id);
}

void ClientConnection::Fail(CallId id, Status status) {
  Call* call = FindCall(id);
  if (call == nullptr || call->status) return;
  DropReplies(id);
  call->status = std::move(status);
  Note(id, *call);
}

void ClientConnection::Break(CallId id, Status status) {
  Fail(id, std::move(status));
  http2_.Reset(id, NGHTTP2_CANCEL);
}

void ClientConnection::Note(CallId id, Call& call) {
  if (!std::exchange(call.noted, true)) ready_.push_back(id);
}

std::optional<ClientEvent> ClientConnection::NextEvent() {
  while (!ready_.empty()) {
    const CallId id = ready_.front();
    Call& call = calls_.at(id);
    if (std::exchange(call.requests_sent, false) && !call.status) return RequestsSent{.call = id};
    if (call.reads && inbound_.of(id).HasMessage()) {
      call.reads = false;
      ReplyArrived arrived{.call = id, .reply = inbound_.Take(id)};
      BreakFault(id);
      return arrived;
    }
    ready_.pop_front();
    call.noted = false;
    if (!call.status || inbound_.of(id).HasMessage()) continue;
    CallFinished finished{.call = id, .status = std::move(*call.status)};
    if (finished.status.ok() && inbound_.of(id).size() > 0) {
      finished.status = {.code = StatusCode::kInternal, .message = "The server's data end within a reply."};
    }
    deadlines_.Erase(id);
    inbound_.Remove(id);
    calls_.erase(id);
    return finished;
  }
  return std::nullopt;
}

void ClientConnection::PassTime(absl::Time now) {
  while (const auto id = deadlines_.TakeDue(now)) {
    Break(*id, {.code = StatusCode::kDeadlineExceeded, .message = "The call's deadline has passed."});
  }
}

}  // namespace rdmabroker::rpc
