// SPDX-License-Identifier: Apache-2.0

#include "tests/peers/rping_link.h"

#include <endian.h>

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "client/examples/opened_device.h"

namespace rdmabroker::peers {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

}  // namespace

absl::StatusOr<std::unique_ptr<RpingLink>> RpingLink::Make(Adapter& adapter, uint32_t size) {
  std::unique_ptr<RpingLink> link(new RpingLink(size));
  if (absl::Status status = link->Open(adapter); !status.ok()) return status;
  return link;
}

absl::Status RpingLink::Open(Adapter& adapter) {
  const auto domain = adapter.CreateProtectionDomain();
  domain_ = domain.object;
  if (domain_ == nullptr) return examples::Report("protection domain", domain.status);
  // One call for each Arm, which follows the taking of the last: the semaphore is never released twice.
  const auto queue = adapter.CreateCompletionQueue(16, [this](NdkStatus) { notified_.release(); });
  queue_ = queue.object;
  if (queue_ == nullptr) return examples::Report("completion queue", queue.status);
  QueuePairAttributes attributes{.receive_cq = queue_, .initiator_cq = queue_};
  attributes.receive_queue_depth = kReceives;
  attributes.initiator_queue_depth = 2;
  attributes.max_receive_request_sge = attributes.max_initiator_request_sge = 1;
  const auto queue_pair = domain_->CreateQueuePair(attributes);
  queue_pair_ = queue_pair.object;
  if (queue_pair_ == nullptr) return examples::Report("queue pair", queue_pair.status);
  const auto messages = domain_->CreateMemoryRegion(false);
  message_region_ = messages.object;
  if (message_region_ == nullptr) return examples::Report("memory region", messages.status);
  const auto buffer = domain_->CreateMemoryRegion(false);
  buffer_region_ = buffer.object;
  if (buffer_region_ == nullptr) return examples::Report("memory region", buffer.status);
  NdkStatus status = message_region_->Register(messages_.data(), messages_.size(), kMrAllowLocalWrite);
  if (status != NdkStatus::kSuccess) return examples::Report("registration", status);
  status = buffer_region_->Register(buffer_.data(), buffer_.size(),
                                    kMrAllowRemoteRead | kMrAllowRemoteWrite | kMrRdmaReadSink);
  if (status != NdkStatus::kSuccess) return examples::Report("registration", status);
  for (size_t slot = 1; slot <= kReceives; ++slot) {
    if (absl::Status posted = PostReceive(slot); !posted.ok()) return posted;
  }
  return absl::OkStatus();
}

RpingLink::~RpingLink() {
  for (DataObject* object : {static_cast<DataObject*>(queue_pair_), static_cast<DataObject*>(message_region_),
                             static_cast<DataObject*>(buffer_region_), static_cast<DataObject*>(queue_),
                             static_cast<DataObject*>(domain_)}) {
    if (object != nullptr) client::BlockingClose(object);
  }
}

absl::Status RpingLink::PostReceive(size_t slot) {
  const Sge sge{&messages_[slot * kMessageLength], kMessageLength, message_region_->local_token()};
  return examples::Report("receive", queue_pair_->Receive(reinterpret_cast<void*>(slot), {&sge, 1}));
}

absl::Status RpingLink::Send(bool empty) {
  const uint64_t address = htobe64(empty ? 0 : reinterpret_cast<uint64_t>(buffer_.data()));
  const uint32_t key = htobe32(empty ? 0 : static_cast<uint32_t>(buffer_region_->remote_token()));
  const uint32_t size = htobe32(empty ? 0 : static_cast<uint32_t>(buffer_.size()));
  std::memcpy(&messages_[0], &address, sizeof address);
  std::memcpy(&messages_[8], &key, sizeof key);
  std::memcpy(&messages_[12], &size, sizeof size);
  const Sge sge{messages_.data(), kMessageLength, message_region_->local_token()};
  return AwaitInitiator(queue_pair_->Send(nullptr, {&sge, 1}, 0));
}

absl::StatusOr<RpingMessage> RpingLink::Receive() {
  while (inbox_.empty()) {
    if (absl::Status status = AwaitResults(); !status.ok()) return status;
  }
  const RpingMessage message = inbox_.front();
  inbox_.pop_front();
  return message;
}

absl::Status RpingLink::Check(const RpingMessage& message) const {
  if (message.size > 0 && message.size <= buffer_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the peer names ", message.size, " bytes; there is room for ", buffer_.size()));
}

absl::Status RpingLink::Read(const RpingMessage& from) {
  if (absl::Status status = Check(from); !status.ok()) return status;
  const Sge sge{buffer_.data(), from.size, buffer_region_->local_token()};
  return AwaitInitiator(queue_pair_->Read(nullptr, {&sge, 1}, {from.address, RemoteToken{from.key}}, 0));
}

absl::Status RpingLink::Write(const RpingMessage& to) {
  if (absl::Status status = Check(to); !status.ok()) return status;
  const Sge sge{buffer_.data(), to.size, buffer_region_->local_token()};
  return AwaitInitiator(queue_pair_->Write(nullptr, {&sge, 1}, {to.address, RemoteToken{to.key}}, 0));
}

absl::Status RpingLink::AwaitInitiator(NdkStatus posted) {
  if (posted != NdkStatus::kSuccess) return examples::Report("post", posted);
  initiator_done_ = false;
  while (!initiator_done_) {
    if (absl::Status status = AwaitResults(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RpingLink::AwaitResults() {
  if (over_) return absl::CancelledError("the connection is over");
  queue_->Arm(CqNotify::kAny);
  if (!notified_.try_acquire_for(kPatience)) return absl::DeadlineExceededError("the peer has said nothing for 30 s");
  return TakeResults();
}

absl::Status RpingLink::TakeResults() {
  std::array<ResultEx, 8> results;
  const size_t count = queue_->GetResultsEx(results);
  for (const ResultEx& result : std::span(results).first(count)) {
    // The peer may disconnect as soon as it has its last message, of which this side's completion may come later.
    if (result.type == OperationType::kReceive && result.status == NdkStatus::kCancelled) {
      over_ = true;
      continue;
    }
    if (result.status != NdkStatus::kSuccess) return examples::Report("request", result.status);
    if (result.type != OperationType::kReceive) {
      initiator_done_ = true;
      continue;
    }
    if (result.bytes_transferred != kMessageLength) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message of ", result.bytes_transferred, " bytes is not rping's"));
    }
    const auto slot = reinterpret_cast<size_t>(result.request_context);
    const uint8_t* at = &messages_[slot * kMessageLength];
    RpingMessage message;
    std::memcpy(&message.address, at, sizeof message.address);
    std::memcpy(&message.key, at + 8, sizeof message.key);
    std::memcpy(&message.size, at + 12, sizeof message.size);
    inbox_.push_back({be64toh(message.address), be32toh(message.key), be32toh(message.size)});
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace rdmabroker::peers
