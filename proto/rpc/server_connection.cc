// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/server_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker::rpc {
namespace {

using absl::StatusCode;

Http2::Settings SettingsOf(const ServerConnection::Limits& limits) {
  return {.streams = limits.calls, .stream_window = limits.window, .header_block = limits.header_block};
}

// The headers must have one.
std::string PathOf(const Headers& headers) { return std::string(*Find(headers, ":path")); }

Headers AnswerHeaders() { return {{":status", "200"}, {"content-type", "application/grpc"}}; }

// The part of a client's text that a status repeats.
std::string Excerpt(std::string_view text) { return std::string(text.substr(0, 100)); }

}  // namespace

ServerConnection::ServerConnection(const Methods& methods, const Limits& limits, FrameBudget& budget, absl::Time now)
    : methods_(methods),
      limits_(limits),
      budget_(&budget),
      http2_(Http2::End::kServer, SettingsOf(limits), *this, &budget),
      inbound_({.longest = limits.request, .window = limits.window, .long_messages = limits.long_calls},
               [this](CallId call, size_t octets) { http2_.GiveBack(call, octets); }),
      now_(now),
      settings_deadline_(now + limits.patience) {}

void ServerConnection::ChargeTo(FrameBudget& budget) {
  budget_ = &budget;
  http2_.ChargeTo(&budget);
}

size_t ServerConnection::Receive(std::string_view octets, absl::Time now) {
  now_ = now;
  const size_t read = http2_.Receive(octets, now);
  if (http2_.IsTerminated()) Disconnected();
  return read;
}

std::string ServerConnection::TakeOutput() {
  std::string output = http2_.TakeOutput();
  if (http2_.IsTerminated()) Disconnected();
  return output;
}

void ServerConnection::Terminate(uint32_t error, std::string_view why) {
  http2_.Terminate(error, why);
  Disconnected();
}

void ServerConnection::Drain(absl::Time now) {
  http2_.Drain();
  drain_deadline_ = now + limits_.patience;
}

void ServerConnection::Disconnected() {
  while (!calls_.empty()) Lose(calls_.begin()->first, CallLost::Why::kConnection);
}

void ServerConnection::HeadersArrived(CallId id, Headers headers, size_t octets) {
  if (octets <= limits_.header_block) {
    const auto path = Find(headers, ":path");
    if (!AreWellFormed(headers) || !path || path->empty() || !Find(headers, ":method")) {
      return http2_.Reset(id, NGHTTP2_PROTOCOL_ERROR);
    }
    const bool posted = Find(headers, ":method") == "POST";
    if (!posted || !IsGrpc(Find(headers, "content-type").value_or(""))) {
      return http2_.Respond(id, {{":status", posted ? "415" : "405"}}, true);
    }
  }
  if (const auto refusal = RefusalOf(headers, octets)) return End(id, false, *refusal);
  Begin(id, std::move(headers), octets);
}

std::optional<Status> ServerConnection::RefusalOf(const Headers& headers, size_t octets) const {
  if (octets > limits_.header_block) {
    return Status{.code = StatusCode::kResourceExhausted,
                  .message = absl::StrCat("The call's headers have ", octets, " octets; at most ", limits_.header_block,
                                          " are taken.")};
  }
  const std::string path = PathOf(headers);
  if (!methods_.contains(path)) {
    return Status{.code = StatusCode::kUnimplemented,
                  .message = absl::StrCat("There is no method ", Excerpt(path), ".")};
  }
  if (Find(headers, "grpc-encoding").value_or("identity") != "identity") {
    return Status{.code = StatusCode::kUnimplemented,
                  .message =
                      "The call is compressed, which this server does not take; make it with grpc-encoding "
                      "identity."};
  }
  const auto timeout = Find(headers, "grpc-timeout");
  if (timeout && !ReadTimeout(*timeout)) {
    return Status{.code = StatusCode::kInternal,
                  .message = absl::StrCat("grpc-timeout is \"", Excerpt(*timeout),
                                          "\", which is not up to 8 digits and one of H, M, S, m, u, n.")};
  }
  return std::nullopt;
}

void ServerConnection::Begin(CallId id, Headers headers, size_t octets) {
  budget_->EarnByCall();
  Call& call = calls_[id];
  call.requests = methods_.at(PathOf(headers));
  if (const auto timeout = Find(headers, "grpc-timeout")) deadlines_.Add(id, now_ + *ReadTimeout(*timeout));
  call.headers = std::move(headers);
  call.header_octets = octets;
  header_octets_ += octets;
  inbound_.Add(id);
  Note(id, call);
}

void ServerConnection::DataArrived(CallId id, std::string_view data) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return http2_.GiveBack(id, data.size());
  // Once for each frame, because many requests in one frame cost the client one frame.
  if (inbound_.Append(id, data) > 0) budget_->EarnByRequest();
  if (!RefuseFault(id, found->second)) Note(id, found->second);
}

void ServerConnection::PeerIsDone(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  found->second.client_done = true;
  if (!RefuseFault(id, found->second)) Note(id, found->second);
}

void ServerConnection::AllSent(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  found->second.replies_sent = true;
  Note(id, found->second);
}

void ServerConnection::Closed(CallId id, uint32_t error) {
  deadlines_.Erase(id);
  Lose(id, error == NGHTTP2_CANCEL ? CallLost::Why::kCancelled : CallLost::Why::kReset);
}

std::optional<Status> ServerConnection::FaultOf(CallId id, const Call& call) const {
  const auto internal = [](const char* message) { return Status{.code = StatusCode::kInternal, .message = message}; };
  const MessageReader& reader = inbound_.of(id);
  if (reader.fault() != MessageFault::kNone) return StatusOfFault(reader.fault(), "request", limits_.request);
  if (call.requests == Requests::kOne && reader.HasMoreThanOne()) {
    return internal("The client has sent more than the one request that this method takes.");
  }
  if (!call.client_done || reader.HasMessage()) return std::nullopt;
  if (reader.size() > 0) return internal("The client's data end within a request.");
  if (call.begun || call.requests == Requests::kMany) return std::nullopt;
  return internal("The client has sent no request; this method takes one.");
}

bool ServerConnection::RefuseFault(CallId id, const Call& call) {
  const std::optional<Status> fault = FaultOf(id, call);
  if (fault) Refuse(id, *fault);
  return fault.has_value();
}

void ServerConnection::Refuse(CallId id, const Status& status) {
  const bool responded = calls_.at(id).responded;
  Lose(id, CallLost::Why::kReset);
  End(id, responded, status);
}

void ServerConnection::End(CallId id, bool responded, const Status& status) {
  Headers trailers = TrailersOf(status);
  if (responded) return http2_.EndData(id, std::move(trailers));
  Headers headers = AnswerHeaders();
  if (status.code == StatusCode::kUnimplemented) headers.push_back({"grpc-accept-encoding", "identity"});
  headers.insert(headers.end(), trailers.begin(), trailers.end());
  http2_.Respond(id, headers, true);
}

bool ServerConnection::HasNews(CallId id, const Call& call) const {
  if (!call.begun) return call.requests == Requests::kMany || call.client_done;
  return call.replies_sent || (call.reads && (call.client_done || inbound_.of(id).HasMessage()));
}

void ServerConnection::Note(CallId id, Call& call) {
  if (call.turn != 0 || !HasNews(id, call)) return;
  call.turn = ++last_turn_;
  (call.begun ? ready_ : new_).emplace(call.turn, id);
}

std::optional<ServerEvent> ServerConnection::NextEvent() {
  if (!lost_.empty()) {
    const CallLost lost = lost_.front();
    lost_.pop_front();
    return lost;
  }
  holds_new_ = unsent() > (holds_new_ ? limits_.unsent / 2 : limits_.unsent);
  const bool takes_new = !new_.empty() && !holds_new_;
  if (!takes_new && ready_.empty()) return std::nullopt;
  const bool next_is_new = takes_new && (ready_.empty() || new_.begin()->first < ready_.begin()->first);
  auto& turns = next_is_new ? new_ : ready_;
  const CallId id = turns.begin()->second;
  turns.erase(turns.begin());
  Call& call = calls_.at(id);
  call.turn = 0;
  return TakeNews(id, call);
}

ServerEvent ServerConnection::TakeNews(CallId id, Call& call) {
  if (std::exchange(call.replies_sent, false)) {
    Note(id, call);
    return RepliesSent{.call = id};
  }
  if (!call.begun) {
    call.begun = true;
    header_octets_ -= std::exchange(call.header_octets, 0);
    return CallBegan{.call = id,
                     .path = PathOf(call.headers),
                     .headers = std::move(call.headers),
                     .request = call.requests == Requests::kOne ? inbound_.Take(id) : ""};
  }
  call.reads = false;
  RequestArrived arrived{.call = id, .request = std::nullopt};
  if (inbound_.of(id).HasMessage()) {
    arrived.request = inbound_.Take(id);
    // The next request may be malformed. Its CallLost follows this event.
    RefuseFault(id, call);
  }
  return arrived;
}

ServerConnection::Call* ServerConnection::FindBegun(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() || !found->second.begun ? nullptr : &found->second;
}

void ServerConnection::Read(CallId id) {
  Call* call = FindBegun(id);
  if (call == nullptr) return;
  call->reads = true;
  Note(id, *call);
}

void ServerConnection::Send(CallId id, std::string_view reply) {
  Call* call = FindBegun(id);
  if (call == nullptr) return;
  if (!std::exchange(call->responded, true)) http2_.Respond(id, AnswerHeaders(), false);
  http2_.Send(id, Framed(reply));
  budget_->EarnByReply(reply.size());
}

void ServerConnection::Finish(CallId id, const Status& status) {
  const Call* call = FindBegun(id);
  if (call == nullptr) {
    ForgetLoss(id);
    return;
  }
  const bool responded = call->responded;
  Forget(id);
  End(id, responded, status);
}

void ServerConnection::Abandon(CallId id) {
  // A lost call has been reset or has its status already.
  if (ForgetLoss(id) || (calls_.contains(id) && FindBegun(id) == nullptr)) return;
  Forget(id);
  http2_.Reset(id, NGHTTP2_CANCEL);
}

bool ServerConnection::ForgetLoss(CallId id) {
  return std::erase_if(lost_, [id](const CallLost& lost) { return lost.call == id; }) > 0;
}

void ServerConnection::Forget(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const Call& call = found->second;
  (call.begun ? ready_ : new_).erase(call.turn);
  inbound_.Remove(id);
  header_octets_ -= call.header_octets;
  calls_.erase(found);
}

void ServerConnection::Lose(CallId id, CallLost::Why why) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  if (found->second.begun) lost_.push_back({.call = id, .why = why});
  Forget(id);
}

int ServerConnection::PassTime(absl::Time now) {
  now_ = now;
  if (!http2_.SettingsAgreed() && now >= settings_deadline_ && !http2_.IsTerminated()) {
    Terminate(NGHTTP2_SETTINGS_TIMEOUT, "the client does not acknowledge SETTINGS");
  }
  if (drain_deadline_ && now >= *drain_deadline_) {
    drain_deadline_.reset();
    http2_.EndDrain();
  }
  int ended = 0;
  for (; ended < kDeadlinesAtATime; ++ended) {
    const auto due = deadlines_.TakeDue(now);
    if (!due) break;
    const CallId id = *due;
    const auto found = calls_.find(id);
    const bool finished = found == calls_.end();
    const bool responded = !finished && found->second.responded;
    Lose(id, CallLost::Why::kDeadline);
    // A reply that has partly left cannot be withdrawn, and the client may never read the rest.
    if (finished || http2_.unsent(id) > 0) {
      http2_.Reset(id, NGHTTP2_CANCEL);
    } else {
      End(id, responded, {.code = StatusCode::kDeadlineExceeded, .message = "The call's deadline has passed."});
    }
  }
  return ended;
}

std::optional<absl::Time> ServerConnection::NextDeadline() const {
  std::optional<absl::Time> next = deadlines_.Next();
  const auto sooner = [&next](absl::Time other) { next = std::min(next.value_or(other), other); };
  if (drain_deadline_) sooner(*drain_deadline_);
  if (!http2_.SettingsAgreed() && !http2_.IsTerminated()) sooner(settings_deadline_);
  return next;
}

}  // namespace rdmabroker::rpc
