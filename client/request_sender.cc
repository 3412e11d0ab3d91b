// SPDX-License-Identifier: Apache-2.0

#include "client/request_sender.h"

#include <algorithm>
#include <chrono>

#include "client/translation.h"

namespace rdmabroker::client {
namespace {

// The broker answers without waiting for anybody; a broker that is stopped for longer has this many attempts.
constexpr std::chrono::seconds kReplyDeadline{10};
constexpr int kAttempts = 6;
// Before the first repeat.
constexpr std::chrono::milliseconds kFirstRepeat{10};
// Where the connection has broken, or the session has not returned on a new one. Its return comes long before.
constexpr std::chrono::milliseconds kBrokenRepeat{1000};

// Requests that wait for the window or for their lane. More than one for each object that a session may have by the
// broker's defaults, so that its clean-up always fits.
constexpr size_t kMaxWaiting = 65536;

// To what is said of the session's end, for a request that the broker may have.
constexpr char kUnknown[] =
    "; whether the request was carried out is not known, and what it made ends with the session: before asking again, "
    "open another session and look at what is there (rdma-brokerctl endpoints, connectors)";

// What a repeat cannot change: the request never reaches the broker's logic.
bool IsFutile(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNIMPLEMENTED || code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         code == grpc::StatusCode::INVALID_ARGUMENT;
}

}  // namespace

struct RequestSender::Request {
  RequestId id = {};
  std::shared_ptr<Lane> lane;
  StartAttempt start;
  Done done;         // Empty once called.
  int attempts = 0;  // Since the session's stream was there last.
  bool answered = false;
  bool holds_lane = false;
};

struct RequestSender::Attempt final : CompletionThread::Tag {
  void Complete(bool) override {
    const std::unique_ptr<Attempt> self(this);
    if (sender == nullptr) return;
    sender->attempts_.erase(this);
    sender->HandleReply(*this);
  }

  RequestSender* sender = nullptr;  // Null once it has ended.
  uint64_t returns = 0;             // The sender's, when it began.
  std::shared_ptr<Request> request;
  grpc::ClientContext context;
  OutcomeReader reader;
  v1::Outcome reply;
  grpc::Status status;
};

RequestSender::RequestSender(std::shared_ptr<CompletionThread> thread, v1::Broker::Stub* stub,
                             std::function<void()> on_broken)
    : thread_(std::move(thread)), stub_(stub), on_broken_(std::move(on_broken)) {}

RequestSender::~RequestSender() = default;

void RequestSender::Open(uint64_t session_id, uint32_t answers_kept) {
  session_id_ = session_id;
  window_ = std::max<uint64_t>(1, answers_kept);
  sending_ = true;
  Pump();
}

void RequestSender::Resume() {
  sending_ = true;
  ++returns_;
  for (const auto& [id, request] : std::exchange(to_repeat_, {})) {
    request->attempts = 0;
    SendAgain(request);
  }
  Pump();
}

void RequestSender::Submit(const std::shared_ptr<Lane>& lane, StartAttempt start, Done done) {
  auto request = std::make_shared<Request>();
  request->lane = lane;
  request->start = std::move(start);
  request->done = std::move(done);
  if (ended_ != nullptr) return FinishWith(request, *ended_, {});
  if (waiting_ >= kMaxWaiting) {
    return FinishWith(request, {.status = NdkStatus::kInsufficientResources, .hint = "too many requests wait"}, {});
  }
  ++waiting_;
  lane->waiting.push_back(std::move(request));
  if (!lane->busy && lane->waiting.size() == 1) ready_.push_back(lane);
  Pump();
}

// The broker tells repeats from new requests by how far ids lie apart; so the oldest unanswered one holds the window.
void RequestSender::Pump() {
  while (sending_ && ended_ == nullptr && !ready_.empty()) {
    if (!unanswered_.empty() && last_id_ + 1 - static_cast<uint64_t>(*unanswered_.begin()) >= window_) return;
    const std::shared_ptr<Lane> lane = ready_.front();
    ready_.pop_front();
    const std::shared_ptr<Request> request = lane->waiting.front();
    lane->waiting.pop_front();
    --waiting_;
    lane->busy = true;
    request->holds_lane = true;
    request->id = RequestId{++last_id_};
    unanswered_.insert(request->id);
    unfinished_.emplace(request->id, request);
    Send(request);
  }
}

void RequestSender::Send(const std::shared_ptr<Request>& request) {
  ++request->attempts;
  auto attempt = std::make_unique<Attempt>();
  attempt->sender = this;
  attempt->returns = returns_;
  attempt->request = request;
  attempt->context.set_deadline(std::chrono::system_clock::now() + kReplyDeadline);
  v1::RequestHeader header;
  header.set_session_id(session_id_);
  header.set_request_id(static_cast<uint64_t>(request->id));
  header.set_acknowledged_event(static_cast<uint64_t>(acknowledged_));
  told_ = acknowledged_;
  attempt->reader = request->start(stub_, &attempt->context, header, thread_->queue());
  Attempt* const begun = attempt.release();
  attempts_.insert(begun);
  begun->reader->Finish(&begun->reply, &begun->status, thread_->Begin(begun));
}

void RequestSender::HandleReply(const Attempt& attempt) {
  const std::shared_ptr<Request>& request = attempt.request;
  if (request->answered || ended_ != nullptr) return;
  if (attempt.status.ok()) {
    Answered(*request);
    if (attempt.reply.status() != v1::STATUS_PENDING) Finish(request, attempt.reply);
  } else if (const auto detail = FailureDetail(attempt.status); detail.has_value()) {
    Answered(*request);
    Finish(request, *detail);
  } else {
    Repeat(attempt);
  }
  Pump();
}

void RequestSender::SendAgain(const std::shared_ptr<Request>& request) {
  if (request->done == nullptr) return Answered(*request);  // Its outcome has come; a reply could not tell more.
  Send(request);
}

void RequestSender::Repeat(const Attempt& attempt) {
  const std::shared_ptr<Request>& request = attempt.request;
  const grpc::Status& status = attempt.status;
  if (IsFutile(status.error_code())) {
    Answered(*request);
    const NdkStatus code = status.error_code() == grpc::StatusCode::UNIMPLEMENTED ? NdkStatus::kNotSupported
                                                                                  : NdkStatus::kInvalidParameter;
    return FinishWith(request, {.status = code, .hint = "the broker does not take this: " + status.error_message()},
                      {});
  }
  if (sending_ && attempt.returns != returns_) {
    // What it failed of is over: most likely it overtook the session's return.
    request->attempts = 0;
    return SendAgain(request);
  }
  to_repeat_[request->id] = request;
  if (!sending_) return;
  if (request->attempts >= kAttempts) return on_broken_();
  const auto first = HasGone(status) ? kBrokenRepeat : kFirstRepeat;
  thread_->After(back_off_(first, kBrokenRepeat, request->attempts - 1), [this, request] {
    // It may have been sent since, or wait for the session's return.
    if (sending_ && to_repeat_.erase(request->id) == 1) SendAgain(request);
  });
}

void RequestSender::Answered(Request& request) {
  request.answered = true;
  to_repeat_.erase(request.id);
  unanswered_.erase(request.id);
  ReleaseLane(request);
}

void RequestSender::ReleaseLane(Request& request) {
  if (!std::exchange(request.holds_lane, false)) return;
  request.lane->busy = false;
  if (!request.lane->waiting.empty()) ready_.push_back(request.lane);
}

void RequestSender::HandleOutcome(const v1::OutcomeEvent& event) {
  const auto found = unfinished_.find(RequestId{event.request_id()});
  if (found == unfinished_.end()) return;
  const std::shared_ptr<Request> request = found->second;
  ReleaseLane(*request);  // The broker has dealt with it, whatever has become of its reply.
  Finish(request, event.outcome());
  Pump();
}

void RequestSender::Finish(const std::shared_ptr<Request>& request, const v1::Outcome& message) {
  const Outcome outcome = FromMessage(message);
  if (outcome.status == NdkStatus::kPending || outcome.status == NdkStatus::kTimeout) {
    return FinishWith(request, BrokenPromise("is not final where it has to be"), {});
  }
  FinishWith(request, outcome, message);
}

void RequestSender::FinishWith(const std::shared_ptr<Request>& request, const Outcome& outcome,
                               const v1::Outcome& message) {
  unfinished_.erase(request->id);
  const Done done = std::exchange(request->done, nullptr);
  if (done != nullptr) done(outcome, message);
}

void RequestSender::End(const Outcome& outcome) {
  if (ended_ != nullptr) return;
  ended_ = std::make_unique<Outcome>(outcome);
  for (Attempt* const attempt : attempts_) {
    attempt->sender = nullptr;
    attempt->context.TryCancel();
  }
  attempts_.clear();
  to_repeat_.clear();
  std::vector<std::shared_ptr<Request>> sent;
  std::vector<std::shared_ptr<Request>> unsent;
  std::vector<std::shared_ptr<Lane>> lanes(ready_.begin(), ready_.end());
  for (const auto& [id, request] : unfinished_) {
    sent.push_back(request);
    if (request->holds_lane) lanes.push_back(request->lane);
  }
  ready_.clear();
  for (const auto& lane : lanes) {
    unsent.insert(unsent.end(), lane->waiting.begin(), lane->waiting.end());
    lane->waiting.clear();
  }
  Outcome unknown = outcome;
  if (outcome.status == NdkStatus::kConnectionDisconnected) unknown.hint += kUnknown;
  for (const auto& request : sent) FinishWith(request, unknown, {});
  for (const auto& request : unsent) FinishWith(request, outcome, {});
}

}  // namespace rdmabroker::client
