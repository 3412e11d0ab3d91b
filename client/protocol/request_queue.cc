// SPDX-License-Identifier: Apache-2.0

#include "client/protocol/request_queue.h"

#include <algorithm>
#include <utility>

#include "client/translation.h"

namespace rdmabroker::client {
namespace {

// broker.proto: the longest message to the broker, less what is around the requests.
constexpr size_t kMostBytes = 65536 - 64;
// Tag and length of a request in a batch, and its number.
constexpr size_t kAroundRequest = 24;
// The broker handles so many in one go.
constexpr int kMostRequests = 64;

// Follows the hint of the session's end where the broker may have the request.
constexpr char kUnknown[] =
    "; whether the request was carried out is not known, and what it made ends with the session: before asking again, "
    "open another session and look at what is there (rdma-brokerctl endpoints, connectors)";

}  // namespace

void RequestQueue::SetWindow(uint32_t answers_kept) { window_ = std::max(1u, answers_kept); }

void RequestQueue::Add(v1::BatchedRequest request, Done done) {
  if (ended_) return done(end_, {});
  if (last_ - sent_ >= kMostWaiting) {
    return done({.status = NdkStatus::kInsufficientResources, .hint = "too many requests wait"}, {});
  }
  if (request.ByteSizeLong() + kAroundRequest > kMostBytes) {
    return done({.status = NdkStatus::kInvalidParameter, .hint = "the request is larger than the broker takes"}, {});
  }
  request.set_request_id(++last_);
  unfinished_.emplace(last_, Entry{std::move(request), std::move(done)});
}

bool RequestQueue::unanswered() const {
  const auto first = unfinished_.upper_bound(taken_);
  return first != unfinished_.end() && first->first <= sent_;
}

// The broker tells repeats from new requests by how far numbers lie apart, so the oldest one that may have to be made
// again holds the window. One that has ended has not, whether or not it is known to be taken.
uint64_t RequestQueue::LastOfWindow() const {
  const auto oldest = unfinished_.upper_bound(taken_);
  const uint64_t settled = oldest == unfinished_.end() ? ever_sent_ : std::min(oldest->first - 1, ever_sent_);
  return settled + window_;
}

bool RequestQueue::Fill(v1::RequestBatch* batch) {
  const uint64_t last = LastOfWindow();
  size_t bytes = 0;
  for (auto next = unfinished_.upper_bound(sent_); next != unfinished_.end(); ++next) {
    const auto& [id, entry] = *next;
    bytes += entry.request.ByteSizeLong() + kAroundRequest;
    if (id > last || bytes > kMostBytes || batch->requests_size() == kMostRequests) break;
    *batch->add_requests() = entry.request;
    sent_ = id;
  }
  ever_sent_ = std::max(ever_sent_, sent_);
  return batch->requests_size() != 0;
}

void RequestQueue::Took(uint64_t request) {
  if (request <= sent_) taken_ = std::max(taken_, request);
}

void RequestQueue::Finish(uint64_t request, const v1::Outcome& message) {
  Outcome outcome = FromMessage(message);
  if (outcome.status == NdkStatus::kPending || outcome.status == NdkStatus::kTimeout) {
    return FinishWith(request, BrokenPromise("is not final where it has to be"), {});
  }
  FinishWith(request, outcome, message);
}

void RequestQueue::FinishWith(uint64_t request, const Outcome& outcome, const v1::Outcome& message) {
  // No outcome is of a request that was never sent.
  if (request > ever_sent_) return;
  const auto found = unfinished_.extract(request);
  if (!found.empty()) found.mapped().done(outcome, message);
}

void RequestQueue::End(const Outcome& outcome) {
  if (std::exchange(ended_, true)) return;
  end_ = outcome;
  Outcome unknown = outcome;
  if (outcome.status == NdkStatus::kConnectionDisconnected) unknown.hint += kUnknown;
  for (const auto& [id, entry] : std::exchange(unfinished_, {})) entry.done(id > ever_sent_ ? outcome : unknown, {});
  sent_ = taken_ = last_;
}

}  // namespace rdmabroker::client
