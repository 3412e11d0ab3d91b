// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "dataplane/iwarp/limits.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/provider_error.h"

namespace rdmabroker::iwarp {
namespace {

// What is read ahead of knowing where it belongs, and copied there. Large enough that many small FPDUs come with one
// call.
constexpr size_t kStagedBytes = 32 * 1024;
// With a CRC all comes this way: what is in its place already somebody else may change before the sum is made, as by a
// write of his own into the same memory, and that must not end the connection. Little enough that it stays in the
// cache.
constexpr size_t kStagedBytesWithCrc = 64 * 1024;
// Without, payload from here on goes straight to its place, with only this much read behind it: the trailer and the
// next header.
constexpr size_t kDirectFrom = 8 * 1024;
constexpr size_t kBehindDirect = 256;
constexpr size_t kMaxPieces = 64;  // Of memory in one call.

TerminateCause WriteCause(AccessVerdict verdict) {
  switch (verdict) {
    case AccessVerdict::kWrongDomain:
      return kDdpStagNotAssociated;
    case AccessVerdict::kBounds:
      return kDdpBaseOrBounds;
    case AccessVerdict::kWrap:
      return kDdpToWrap;
    case AccessVerdict::kRights:
      return kRdmapAccessRights;
    default:
      return kDdpInvalidStag;
  }
}

TerminateCause ReadCause(AccessVerdict verdict) {
  switch (verdict) {
    case AccessVerdict::kWrongDomain:
      return kRdmapStagNotAssociated;
    case AccessVerdict::kBounds:
      return kRdmapBaseOrBounds;
    case AccessVerdict::kWrap:
      return kRdmapToWrap;
    case AccessVerdict::kRights:
      return kRdmapAccessRights;
    default:
      return kRdmapInvalidStag;
  }
}

}  // namespace

void Receiver::Start(const ConnectionState& state) {
  decoder_.emplace(state.crc);
  next_msn_ = state.next_receive_msn;
  read_response_due_ = state.read_response_due;
  first_fpdu_seen_ = !state.holds_sends();
  places_directly_ = !state.crc;
  staged_size_ = std::max(state.crc ? kStagedBytesWithCrc : kStagedBytes, state.unread.size());
  // Not zeroed: of a connection with short messages, most of it never becomes memory.
  staged_ = std::make_unique_for_overwrite<uint8_t[]>(staged_size_);
  std::copy(state.unread.begin(), state.unread.end(), staged_.get());
  targets_.pieces.reserve(kMostPieces + 1);  // And what is staged behind them.
  targets_.pins.reserve(kMostPieces);
  staged_begin_ = 0;
  staged_end_ = state.unread.size();
}

Receiver::Outcome Receiver::Drive(int fd) {
  size_t budget = kDriveBudget;
  bool full = true;
  while (true) {
    if (!TakeStaged()) return got_terminate_ ? Outcome::kTerminated : Outcome::kViolation;
    if (!full) return Outcome::kIdle;
    if (budget == 0) return Outcome::kMore;
    const std::optional<ssize_t> got = Read(fd, &full);
    if (!got) return Outcome::kViolation;
    if (*got < 0) return socket_error_ == 0 ? Outcome::kIdle : Outcome::kBroken;
    if (*got == 0) return WithinMessage() ? Outcome::kBroken : Outcome::kEnd;
    budget -= std::min(budget, static_cast<size_t>(*got));
  }
}

bool Receiver::WithinMessage() {
  return decoder_->within_fpdu() || message_.active || within_write_ || attributes_.transmitter->CurrentRead();
}

// What recv says; nothing if the memory is gone that the payload belongs to. Everything staged has been taken before.
std::optional<ssize_t> Receiver::Read(int fd, bool* full) {
  targets_.Clear();
  const bool direct = places_directly_ && decoder_->payload_left() >= kDirectFrom;
  if (direct && !FindTargets(decoder_->payload_left())) return std::nullopt;
  const ssize_t got = ReadInto(fd, full);
  targets_.Clear();
  return got;
}

ssize_t Receiver::ReadInto(int fd, bool* full) {
  std::vector<iovec>& pieces = targets_.pieces;
  const size_t targets = pieces.size();
  size_t direct = 0;
  for (const iovec& target : pieces) direct += target.iov_len;
  const size_t behind = direct == 0 ? staged_size_ : (direct < decoder_->payload_left() ? 0 : kBehindDirect);
  if (behind > 0) pieces.push_back({staged_.get(), behind});
  ssize_t got = -1;
  do {
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    got = direct == 0 ? ::recv(fd, staged_.get(), behind, MSG_DONTWAIT) : ::recvmsg(fd, &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) socket_error_ = errno;
    return -1;
  }
  auto left = static_cast<size_t>(got);
  *full = left == direct + behind;
  for (size_t i = 0; i < targets && left > 0; ++i) {
    const size_t placed = std::min(left, pieces[i].iov_len);
    decoder_->PayloadPlaced({static_cast<const uint8_t*>(pieces[i].iov_base), placed});
    left -= placed;
  }
  staged_begin_ = 0;
  staged_end_ = left;
  return got;
}

// False: the stream must not go on.
bool Receiver::TakeStaged() {
  while (staged_begin_ < staged_end_) {
    const std::span<const uint8_t> staged(staged_.get() + staged_begin_, staged_end_ - staged_begin_);
    if (decoder_->payload_left() > 0) {
      targets_.Clear();
      if (!FindTargets(staged.size())) return false;
      // The sum is made over the staged copy, which nobody else can change, while that is in the nearest cache.
      for (const iovec& target : targets_.pieces) {
        for (size_t done = 0; done < target.iov_len;) {
          const size_t some = std::min(target.iov_len - done, kCopiedAtOnce);
          const uint8_t* const from = staged_.get() + staged_begin_;
          std::memcpy(static_cast<uint8_t*>(target.iov_base) + done, from, some);
          decoder_->PayloadPlaced({from, some});
          done += some;
          staged_begin_ += some;
        }
      }
      targets_.Clear();
      continue;
    }
    const FpduDecoder::Step step = decoder_->Next(staged);
    staged_begin_ += step.taken;
    switch (step.event) {
      case FpduDecoder::Event::kSegment:
        if (!BeginSegment()) return false;
        break;
      case FpduDecoder::Event::kSegmentEnd:
        if (!EndSegment()) return false;
        break;
      case FpduDecoder::Event::kError:
        return Violate(decoder_->error());
      default:
        break;
    }
  }
  return true;
}

bool Receiver::BeginSegment() {
  const SegmentHeader& header = decoder_->header();
  if (header.tagged) return header.opcode == Opcode::kWrite ? BeginWrite() : BeginReadResponse();
  if (header.msn != next_msn_[header.queue]) return Violate(kDdpMsnOutOfRange);
  return header.queue == kSendQueue ? BeginSend() : true;
}

bool Receiver::BeginWrite() {
  const size_t length = decoder_->payload_length();
  if (length == 0) return true;  // Not checked: RFC 5040, section 5.2.
  const SegmentHeader& header = decoder_->header();
  const MemoryTable::Pin pin = attributes_.memory->Lookup(header.stag);
  if (!pin) return Violate(kDdpInvalidStag);
  const AccessVerdict verdict =
      CheckAccess(*pin, header.tagged_offset, length, kRemoteWrite, attributes_.domain, attributes_.queue_pair);
  return verdict == AccessVerdict::kAllowed || Violate(WriteCause(verdict));
}

bool Receiver::BeginReadResponse() {
  const SegmentHeader& header = decoder_->header();
  const size_t length = decoder_->payload_length();
  if (read_response_due_) return (header.last && length == 0) || Violate(kDdpBaseOrBounds);
  if (!read_) {
    read_ = attributes_.transmitter->CurrentRead();
    read_received_ = 0;
  }
  if (!read_ || header.stag != read_->sink_stag) return Violate(kDdpInvalidStag);
  if (header.tagged_offset != read_->sink_offset + read_received_) return Violate(kDdpBaseOrBounds);
  const size_t left = read_->length - read_received_;
  if (length > left || (length == left) != header.last) return Violate(kDdpBaseOrBounds);
  return true;
}

bool Receiver::BeginSend() {
  const SegmentHeader& header = decoder_->header();
  if (!message_.active && !BeginMessage()) return false;
  if (header.opcode != message_.opcode || header.invalidate_stag != message_.invalidate_stag) {
    return Violate(kRdmapUnexpectedOpcode);
  }
  if (header.message_offset != message_.received) return Violate(kDdpInvalidMo);
  if (message_.received + decoder_->payload_length() > message_.capacity) {
    message_.status = NdkStatus::kBufferOverflow;
    return Violate(kDdpMessageTooLong);
  }
  return true;
}

bool Receiver::BeginMessage() {
  auto request = attributes_.srq != nullptr ? attributes_.srq->Take() : attributes_.queue->Take();
  if (!request) return Violate(kDdpNoBuffer);
  const SegmentHeader& header = decoder_->header();
  message_.active = true;
  message_.request = std::move(*request);
  message_.capacity = 0;
  message_.received = 0;
  message_.opcode = header.opcode;
  message_.invalidate_stag = header.invalidate_stag;
  message_.status = NdkStatus::kCancelled;
  for (const Sge& sge : message_.request.sges) message_.capacity += sge.length;
  // No result tells of more.
  message_.capacity = std::min<uint64_t>(message_.capacity, std::numeric_limits<uint32_t>::max());
  // All of it, before the first byte is written.
  if (MayUse(attributes_.memory, message_.request.sges, message_.capacity, kLocalWrite, attributes_.domain))
    return true;
  message_.status = NdkStatus::kAccessViolation;
  return Violate(kRdmapLocalCatastrophic);
}

bool Receiver::FindTargets(size_t most) {
  const SegmentHeader& header = decoder_->header();
  const size_t done = decoder_->payload_length() - decoder_->payload_left();
  const size_t length = std::min(most, decoder_->payload_left());
  if (header.opcode == Opcode::kWrite) {
    MemoryTable::Pin pin = attributes_.memory->Lookup(header.stag);
    if (!pin || CheckAccess(*pin, header.tagged_offset + done, length, kRemoteWrite, attributes_.domain,
                            attributes_.queue_pair) != AccessVerdict::kAllowed) {
      return Violate(kDdpInvalidStag);
    }
    AppendPieces(*pin, header.tagged_offset + done, length, &targets_.pieces);
    targets_.pins.push_back(std::move(pin));
  } else if (header.opcode == Opcode::kReadResponse || IsSend(header.opcode)) {
    if (!FindOwnTargets(length, done)) return false;
  } else {
    targets_.pieces.push_back({control_.data() + done, length});
  }
  if (targets_.pieces.size() > kMaxPieces) targets_.pieces.resize(kMaxPieces);
  return true;
}

// Of a request of this side.
bool Receiver::FindOwnTargets(size_t length, size_t done) {
  const bool response = decoder_->header().opcode == Opcode::kReadResponse;
  const std::span<const Sge> sges = response ? read_->sges : message_.request.sges;
  const uint64_t offset = (response ? read_received_ : message_.received) + done;
  if (PinSlice(attributes_.memory, sges, offset, length, kLocalWrite, attributes_.domain, &targets_)) return true;
  targets_.Clear();
  if (response) {
    attributes_.transmitter->FailRead();
  } else {
    message_.status = NdkStatus::kAccessViolation;
  }
  return Violate(kRdmapLocalCatastrophic);
}

bool Receiver::EndSegment() {
  const SegmentHeader& header = decoder_->header();
  if (!std::exchange(first_fpdu_seen_, true)) attributes_.transmitter->ReleaseHold();
  switch (header.opcode) {
    case Opcode::kWrite:
      within_write_ = !header.last;
      return true;
    case Opcode::kReadResponse:
      if (std::exchange(read_response_due_, false)) return true;
      read_received_ += static_cast<uint32_t>(decoder_->payload_length());
      if (header.last) {
        read_.reset();
        attributes_.transmitter->CompleteRead();
      }
      return true;
    case Opcode::kReadRequest:
      return EndReadRequest();
    case Opcode::kTerminate: {
      const auto message = DecodeTerminate(std::span(control_).first(decoder_->payload_length()));
      if (!message.ok()) return Violate(kRdmapStreamCatastrophic);
      terminated_ = *message;
      got_terminate_ = true;
      return false;
    }
    default:
      return EndSend();
  }
}

bool Receiver::EndSend() {
  message_.received += static_cast<uint32_t>(decoder_->payload_length());
  if (!decoder_->header().last) return true;
  if (Invalidates(message_.opcode) &&
      !attributes_.memory->Invalidate(message_.invalidate_stag, attributes_.domain, attributes_.queue_pair)) {
    return Violate(kRdmapStagCannotBeInvalidated);
  }
  ++next_msn_[kSendQueue];
  Complete(NdkStatus::kSuccess, 0);
  return true;
}

bool Receiver::EndReadRequest() {
  ++next_msn_[kReadRequestQueue];
  const auto payload = std::span<const uint8_t>(control_).first<kReadRequestLength>();
  const ReadRequest request = DecodeReadRequest(payload);
  if (request.length > 0) {
    const MemoryTable::Pin pin = attributes_.memory->Lookup(request.source_stag);
    if (!pin) return Violate(kRdmapInvalidStag, payload);
    const AccessVerdict verdict = CheckAccess(*pin, request.source_offset, request.length, kRemoteRead,
                                              attributes_.domain, attributes_.queue_pair);
    if (verdict != AccessVerdict::kAllowed) return Violate(ReadCause(verdict), payload);
  }
  return attributes_.transmitter->QueueReadResponse(request) || Violate(kDdpNoBuffer, payload);
}

void Receiver::Complete(NdkStatus status, uint32_t provider_error) {
  ResultEx result;
  result.status = status;
  result.bytes_transferred = status == NdkStatus::kSuccess ? message_.received : 0;
  result.qp_context = attributes_.qp_context;
  result.request_context = message_.request.context;
  result.provider_error = provider_error;
  if (status == NdkStatus::kSuccess && Invalidates(message_.opcode)) {
    result.type = OperationType::kReceiveAndInvalidate;
    result.invalidated_token = RemoteToken{message_.invalidate_stag};
  }
  message_.active = false;
  attributes_.cq->Add(result, {.queue_pair = attributes_.queue_pair, .srq = attributes_.srq},
                      IsSolicited(message_.opcode));
  if (attributes_.srq != nullptr) {
    attributes_.srq->Recycle(std::move(message_.request));
  } else {
    attributes_.queue->Recycle(std::move(message_.request));
  }
}

void Receiver::CancelReceives() {
  // Where memory ran out they are there still, and who takes memory away waits for their pins.
  targets_.Clear();
  if (message_.active) {
    const bool own_failure = message_.status != NdkStatus::kCancelled;
    Complete(message_.status, own_failure ? TerminateSent(violation_.cause) : 0);
  }
  if (attributes_.srq != nullptr) return;
  message_.opcode = Opcode::kSend;
  while (auto request = attributes_.queue->Take()) {
    message_.request = std::move(*request);
    Complete(NdkStatus::kCancelled, 0);
  }
}

bool Receiver::Violate(TerminateCause cause, std::span<const uint8_t> read_request) {
  violation_ = TerminateMessage();
  violation_.cause = cause;
  if (decoder_->has_raw_header()) {
    violation_.segment_length = decoder_->ulpdu_length();
    violation_.segment_header = AsText(decoder_->raw_header());
    violation_.read_request = AsText(read_request);
  }
  return false;
}

}  // namespace rdmabroker::iwarp
