// SPDX-License-Identifier: Apache-2.0

#include "tests/service/chatter.h"

#include <isa-l/crc64.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "client/blocking.h"
#include "dataplane/last_hint.h"
#include "tests/service/crowd.h"

namespace rdmabroker::service {
namespace {

// Between an answer and the next message of a connection, so that the machine has time for others, too.
constexpr std::chrono::milliseconds kPause{50};
// For the last answers, on a machine that is slow.
constexpr std::chrono::seconds kPatience{60};
// Of a connection that carries on: the first may have been on its way before.
constexpr uint64_t kFurther = 3;

// Of all words but the last, which is the sum.
template <typename Message>
uint64_t SumOf(const Message& message) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  return ::crc64_ecma_refl(0, bytes, (message.size() - 1) * sizeof message[0]);
}

}  // namespace

Chatter::Chatter(size_t connections, size_t busy) : busy_(busy), active_(connections), passive_(connections) {
  for (size_t i = 0; i < connections; ++i) {
    active_[i].connection = passive_[i].connection = i;
    active_[i].active = active_[i].due = true;
  }
}

void Chatter::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

void Chatter::Prepare(ProtectionDomain& domain, CompletionQueue& queue, const std::vector<QueuePair*>& queue_pairs,
                      bool active) {
  queues_.push_back(&queue);
  std::vector<End>& ends = active ? active_ : passive_;
  MemoryRegion* const region = regions_.emplace_back(domain.CreateMemoryRegion(false).object);
  Require(region != nullptr, "no memory region");
  const NdkStatus registered = region->Register(ends.data(), ends.size() * sizeof(End), kMrAllowLocalWrite);
  if (registered != NdkStatus::kSuccess) Fail(std::string("memory is not registered: ") + LastHint());
  for (size_t i = 0; i < ends.size(); ++i) {
    ends[i].queue_pair = queue_pairs[i];
    ends[i].token = region->local_token();
    PostReceive(ends[i]);
  }
}

void Chatter::Start() {
  thread_ = std::thread([this] { Run(); });
}

bool Chatter::CarryOn() {
  std::vector<uint64_t> goals;
  for (size_t i = 0; i < busy_; ++i) goals.push_back(active_[i].received + kFurther);
  const auto have_all = [&] {
    return std::equal(goals.begin(), goals.end(), active_.begin(),
                      [](uint64_t goal, const End& end) { return end.received >= goal; });
  };
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, kPatience, have_all);
}

bool Chatter::Stop() {
  bool in_time = false;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
    in_time = changed_.wait_for(lock, kPatience, [this] { return stopped_; });
  }
  if (in_time) thread_.join();
  return in_time;
}

void Chatter::CloseRegions() {
  for (MemoryRegion* const region : std::exchange(regions_, {})) client::BlockingClose(region);
}

void Chatter::Run() {
  bool stopping = false;
  while (true) {
    for (CompletionQueue* const queue : queues_) Take(*queue);
    if (Send(Clock::now(), stopping) && stopping) break;
    for (CompletionQueue* const queue : queues_) queue->Arm(CqNotify::kAny);
    std::unique_lock lock(mutex_);
    answered_.notify_all();
    changed_.wait_for(lock, kPause, [this] { return woken_; });
    woken_ = false;
    stopping = stopping_;
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool Chatter::Send(Clock::time_point now, bool stopping) {
  bool idle = true;
  for (End& end : active_) {
    const bool begins = stopping ? end.sent == 0 : end.connection < busy_ && now >= end.not_before;
    if (begins && end.due && !end.sending) Send(end);
    if (end.sending || !end.due) idle = false;
  }
  for (End& end : passive_) {
    if (end.due && !end.sending) Send(end);
    if (end.sending || end.due) idle = false;
  }
  return idle;
}

void Chatter::Send(End& end) {
  std::mt19937_64 random(end.sent * 2 * active_.size() + 2 * end.connection + (end.active ? 1 : 0));
  std::generate(end.out.begin(), end.out.end(), std::ref(random));
  end.out[0] = end.connection;
  end.out[1] = ++end.sent;
  end.out.back() = SumOf(end.out);
  const Sge sge{end.out.data(), kMessageSize, end.token};
  const NdkStatus status = end.queue_pair->Send(nullptr, {&sge, 1}, 0);
  if (status != NdkStatus::kSuccess) ++counts_.failures;
  end.due = false;
  end.sending = status == NdkStatus::kSuccess;
  end.last_sent = Clock::now();
}

void Chatter::Take(CompletionQueue& queue) {
  std::array<ResultEx, 64> results;
  for (size_t count = queue.GetResultsEx(results); count > 0; count = queue.GetResultsEx(results)) {
    for (const ResultEx& result : std::span(results).first(count)) Handle(result);
  }
}

void Chatter::Handle(const ResultEx& result) {
  End& end = *static_cast<End*>(result.qp_context);
  if (result.type == OperationType::kSend) end.sending = false;
  if (result.status != NdkStatus::kSuccess) {
    if (counts_.failures++ == 0) std::cout << "a request has ended with " << StatusName(result.status) << std::endl;
    return;
  }
  if (result.type != OperationType::kReceive) return;
  Check(end, result.bytes_transferred);
  PostReceive(end);
  const Clock::time_point now = Clock::now();
  end.due = true;
  end.not_before = now + kPause;
  if (!end.active) return;
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - end.last_sent);
  counts_.longest_silence = std::max(counts_.longest_silence, silence);
}

void Chatter::Check(End& end, uint32_t size) {
  ++counts_.messages;
  ++end.received;
  const bool good = size == kMessageSize && end.in[0] == end.connection && end.in[1] == end.received &&
                    end.in.back() == SumOf(end.in);
  if (!good) ++counts_.bad;
}

void Chatter::PostReceive(End& end) {
  const Sge sge{end.in.data(), kMessageSize, end.token};
  if (end.queue_pair->Receive(nullptr, {&sge, 1}) != NdkStatus::kSuccess) ++counts_.failures;
}

}  // namespace rdmabroker::service
