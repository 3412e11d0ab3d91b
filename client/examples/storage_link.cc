// SPDX-License-Identifier: Apache-2.0

#include "client/examples/storage_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "client/examples/opened_device.h"

namespace rdmabroker::examples {
namespace {

constexpr size_t kReceives = 4;           // More than the peer ever sends ahead.
constexpr uint32_t kPieces = 8;           // Reads or writes in flight: enough to keep the wire busy.
constexpr uint32_t kPiece = 1 << 18;      // Bytes of one: progress shows even in a file of a few megabytes.
constexpr size_t kSlowPeer = 10'000'000;  // Bytes a second that it moves and sums at least.
// How long after a failed request the library may take to tell why the connection is over, if it is.
constexpr auto kReasonPatience = std::chrono::seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<StorageLink>> StorageLink::Make(rdmabroker::Adapter& adapter) {
  std::unique_ptr<StorageLink> link(new StorageLink(adapter));
  if (absl::Status status = link->Open(); !status.ok()) return status;
  return link;
}

absl::Status StorageLink::Open() {
  const auto domain = adapter_.CreateProtectionDomain();
  domain_ = domain.object;
  if (domain_ == nullptr) return Report("protection domain", domain.status);
  const auto queue = adapter_.CreateCompletionQueue(64, [this](NdkStatus) {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  });
  queue_ = queue.object;
  if (queue_ == nullptr) return Report("completion queue", queue.status);
  QueuePairAttributes attributes{.receive_cq = queue_, .initiator_cq = queue_};
  attributes.receive_queue_depth = kReceives;
  attributes.initiator_queue_depth = kPieces + 2;
  attributes.max_receive_request_sge = attributes.max_initiator_request_sge = 1;
  const auto queue_pair = domain_->CreateQueuePair(attributes);
  queue_pair_ = queue_pair.object;
  if (queue_pair_ == nullptr) return Report("queue pair", queue_pair.status);
  messages_.resize((1 + kReceives) * kMessageLength);
  const auto region = Register(messages_, kMrAllowLocalWrite);
  if (!region.ok()) return region.status();
  message_region_ = *region;
  for (size_t slot = 1; slot <= kReceives; ++slot) {
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

StorageLink::~StorageLink() {
  if (queue_pair_ != nullptr) client::BlockingClose(queue_pair_);
  for (MemoryRegion* region : regions_) client::BlockingClose(region);
  if (queue_ != nullptr) client::BlockingClose(queue_);
  if (domain_ != nullptr) client::BlockingClose(domain_);
}

absl::StatusOr<MemoryRegion*> StorageLink::Register(std::span<uint8_t> memory, MrFlags flags) {
  const auto region = domain_->CreateMemoryRegion(false);
  if (region.object == nullptr) return Report("memory region", region.status);
  regions_.push_back(region.object);
  patience_ += std::chrono::seconds(memory.size() / kSlowPeer);
  if (absl::Status status = Report("register", region.object->Register(memory.data(), memory.size(), flags));
      !status.ok()) {
    return status;
  }
  return region.object;
}

absl::Status StorageLink::PostReceive(size_t slot) {
  const Sge sge{&messages_[slot * kMessageLength], kMessageLength, message_region_->local_token()};
  return Check("receive", queue_pair_->Receive(reinterpret_cast<void*>(slot), {&sge, 1}));
}

absl::Status StorageLink::Send(const Message& message) {
  if (absl::Status status = WaitUntil([this] { return sends_under_way_ == 0; }); !status.ok()) return status;
  EncodeMessage(message, std::span<uint8_t, kMessageLength>(messages_.data(), kMessageLength));
  const Sge sge{messages_.data(), kMessageLength, message_region_->local_token()};
  ++sends_under_way_;
  if (absl::Status status = Check("send", queue_pair_->Send(nullptr, {&sge, 1}, 0)); !status.ok()) return status;
  return WaitUntil([this] { return sends_under_way_ == 0; });
}

absl::StatusOr<Message> StorageLink::Receive(MessageKind kind) {
  if (absl::Status status = WaitUntil([this] { return !inbox_.empty(); }); !status.ok()) return status;
  const Message message = inbox_.front();
  inbox_.pop_front();
  if (message.kind == kind) return message;
  return absl::FailedPreconditionError(absl::StrCat("the peer sent message kind ", static_cast<uint32_t>(message.kind),
                                                    ", not ", static_cast<uint32_t>(kind)));
}

absl::Status StorageLink::TakeResults() {
  std::array<ResultEx, 16> results;
  for (size_t count = queue_->GetResultsEx(results); count > 0; count = queue_->GetResultsEx(results)) {
    for (const ResultEx& result : std::span(results).first(count)) {
      if (absl::Status status = Check("request", result.status); !status.ok()) return status;
      if (result.type == OperationType::kSend) {
        --sends_under_way_;
      } else if (result.type != OperationType::kReceive) {
        --pieces_under_way_;
      } else {
        const auto slot = reinterpret_cast<size_t>(result.request_context);
        const auto message = DecodeMessage({&messages_[slot * kMessageLength], result.bytes_transferred});
        if (!message) return absl::InvalidArgumentError("the peer sent something that is no message");
        inbox_.push_back(*message);
        if (absl::Status status = PostReceive(slot); !status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StorageLink::WaitUntil(const std::function<bool()>& done) {
  while (true) {
    if (absl::Status status = TakeResults(); !status.ok()) return status;
    if (done()) return absl::OkStatus();
    queue_->Arm(CqNotify::kAny);
    // What came before the queue was armed.
    if (absl::Status status = TakeResults(); !status.ok()) return status;
    if (done()) return absl::OkStatus();
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience_, [this] { return notified_ || disconnected_; })) {
      return absl::DeadlineExceededError(absl::StrCat("the peer has said nothing for ", patience_.count(), " s"));
    }
    if (disconnected_ && !notified_) return DisconnectStatus();
    notified_ = false;
  }
}

absl::Status StorageLink::Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                               const Progress& progress) {
  return Move(Direction::kRead, local, region, remote, progress);
}

absl::Status StorageLink::Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                                const Progress& progress) {
  return Move(Direction::kWrite, local, region, remote, progress);
}

absl::Status StorageLink::Move(Direction direction, std::span<uint8_t> local, const MemoryRegion& region,
                               RemoteMemory remote, const Progress& progress) {
  const size_t piece = std::min<size_t>(kPiece, adapter_.info().max_transfer_length);
  for (size_t offset = 0; offset < local.size(); offset += piece) {
    if (absl::Status status = WaitUntil([this] { return pieces_under_way_ < kPieces; }); !status.ok()) return status;
    progress(offset - std::min<size_t>(offset, pieces_under_way_ * piece));
    const size_t length = std::min(piece, local.size() - offset);
    const Sge sge{local.data() + offset, static_cast<uint32_t>(length), region.local_token()};
    const RemoteMemory there{remote.address + offset, remote.token};
    const NdkStatus posted = direction == Direction::kRead ? queue_pair_->Read(nullptr, {&sge, 1}, there, 0)
                                                           : queue_pair_->Write(nullptr, {&sge, 1}, there, 0);
    ++pieces_under_way_;
    if (absl::Status status = Check("transfer", posted); !status.ok()) return status;
  }
  if (absl::Status status = WaitUntil([this] { return pieces_under_way_ == 0; }); !status.ok()) return status;
  progress(local.size());
  return absl::OkStatus();
}

absl::Status StorageLink::Check(const char* what, NdkStatus status) {
  if (status == NdkStatus::kSuccess) return absl::OkStatus();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kReasonPatience, [this] { return disconnected_.has_value(); });
  return disconnected_ ? DisconnectStatus() : Report(what, status);
}

absl::Status StorageLink::DisconnectStatus() const {
  switch (*disconnected_) {
    case NdkStatus::kSuccess:
      return absl::AbortedError("the peer has disconnected");
    case NdkStatus::kConnectionDisconnected:
    case NdkStatus::kRequestAborted:
      return Report("the session with the broker is over", *disconnected_);
    default:
      return Report("the connection is lost", *disconnected_);
  }
}

void StorageLink::NoteDisconnect(NdkStatus status) {
  const std::lock_guard lock(mutex_);
  disconnected_ = status;
  changed_.notify_all();
}

}  // namespace rdmabroker::examples
