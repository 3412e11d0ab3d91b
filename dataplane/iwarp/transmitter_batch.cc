// SPDX-License-Identifier: Apache-2.0

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "dataplane/iwarp/limits.h"
#include "dataplane/iwarp/transmitter.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/crc32c.h"
#include "dataplane/provider_error.h"

namespace rdmabroker::iwarp {
namespace {

// One system call carries about this much: enough to make it cheap, little enough that what the CRC has just read is
// still in the cache when the kernel copies it.
constexpr size_t kBatchBytes = 64 * 1024;
constexpr size_t kBatchPieces = 192;
// Headers, trailers, copied payload: room for one read response FPDU and for the headers of many small ones.
constexpr size_t kOwnedBytes = kMaxFpduLength + 16 * 1024;
// Payload up to here is cheaper to copy than to gather. With a CRC all is copied: it must be that of the bytes that are
// sent, and somebody else may write to the memory meanwhile.
constexpr size_t kCopyBelow = 512;

}  // namespace

void Transmitter::MakeRoom(const ConnectionState& state) {
  const std::lock_guard lock(mutex_);
  reads_.fit(state.outbound_read_limit);
  responses_.fit(state.inbound_read_limit);
  batch_.reserve(kBatchPieces + kMostPieces);
  batch_pins_.reserve(kBatchPieces + kMostPieces);
  batch_tokens_.reserve(kBatchPieces + kMostPieces);
  scratch_.pieces.reserve(kMostPieces);
  scratch_.pins.reserve(kMostPieces);
  owned_ = std::make_unique_for_overwrite<uint8_t[]>(kOwnedBytes);
}

void Transmitter::TransmitLocked() {
  try {
    TransmitBatches();
  } catch (const std::bad_alloc&) {
    // An FPDU may have been begun that cannot be ended, and what it lies in is pinned no more.
    socket_error_ = ENOMEM;
    ForgetBatch();
    scratch_.Clear();
  }
}

void Transmitter::TransmitBatches() {
  size_t budget = kDriveBudget;
  bool blocked = !PinBatch();
  while (fd_ >= 0 && !blocked && budget > 0 && socket_error() == 0) {
    if (batch_.empty() && (gate_ != Gate::kOpen && gate_ != Gate::kRefusing)) break;
    if (batch_.empty() && (failed() || !FillBatch())) break;
    budget -= std::min(budget, batch_bytes_);
    blocked = !SendBatch();
  }
  UnpinBatch();
  wants_write_.store(!batch_.empty() || budget == 0, std::memory_order_seq_cst);
}

// Pins the memory that the rest of a batch is in. False: some of it has gone, in the middle of an FPDU.
bool Transmitter::PinBatch() {
  for (const uint32_t token : batch_tokens_) {
    batch_pins_.push_back(attributes_.memory->Lookup(token));
    if (batch_pins_.back()) continue;
    for (uint64_t index = sent_; index != tail_; ++index) {
      const auto names_it = [token](const Sge& sge) { return static_cast<uint32_t>(sge.token) == token; };
      if (std::any_of(At(index).sges.begin(), At(index).sges.end(), names_it)) {
        FailRequest(&At(index), NdkStatus::kAccessViolation, kLocalError);
        break;
      }
    }
    socket_error_ = ECONNABORTED;
    ForgetBatch();
    return false;
  }
  return true;
}

void Transmitter::ForgetBatch() {
  batch_.clear();
  batch_pins_.clear();
  batch_tokens_.clear();
  batch_position_ = 0;
  batch_bytes_ = 0;
}

// Who takes memory away waits for pins, and must not wait for a peer that does not read.
void Transmitter::UnpinBatch() {
  batch_tokens_.clear();
  for (const MemoryTable::Pin& pin : batch_pins_) batch_tokens_.push_back(pin.token());
  batch_pins_.clear();
}

// False: the socket takes no more now, or never will.
bool Transmitter::SendBatch() {
  while (batch_position_ < batch_.size()) {
    msghdr message = {};
    message.msg_iov = batch_.data() + batch_position_;
    message.msg_iovlen = batch_.size() - batch_position_;
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) socket_error_ = errno;
      return false;
    }
    auto left = static_cast<size_t>(sent);
    while (left > 0) {
      iovec& piece = batch_[batch_position_];
      const size_t taken = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<uint8_t*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      left -= taken;
      if (piece.iov_len == 0) ++batch_position_;
    }
    while (batch_position_ < batch_.size() && batch_[batch_position_].iov_len == 0) ++batch_position_;
  }
  BatchSent();
  return true;
}

void Transmitter::BatchSent() {
  ForgetBatch();
  owned_length_ = 0;
  marked_.clear();
  sent_ = next_;
  ReportDone();
}

bool Transmitter::BatchFull() const {
  return batch_bytes_ >= kBatchBytes || batch_.size() >= kBatchPieces ||
         owned_length_ + kCopyBelow + kMaxFpduHeaderLength + kMaxFpduTrailerLength > kOwnedBytes;
}

// Puts whole FPDUs into the batch. Responses and requests take turns, a message at a time. False: there are none.
bool Transmitter::FillBatch() {
  while (!BatchFull() && !failed()) {
    const bool response_begun = !responses_.empty() && responses_.front().sent > 0;
    const bool respond = !responses_.empty() && offset_ == 0 && (response_begun || response_turn_ || next_ == tail_);
    if (respond) {
      // A large response is a batch of its own: its copy fills the room.
      const size_t payload = std::min<size_t>(responses_.front().request.length - responses_.front().sent,
                                              MaxPayloadLength(state_.fpdu_limit, kTaggedHeaderLength, false));
      if (owned_length_ + payload + kMaxFpduHeaderLength + kMaxFpduTrailerLength > kOwnedBytes) break;
      EmitResponse();
      continue;
    }
    if (next_ == tail_) break;
    if (EmitRequest()) continue;
    // The request has to wait; responses need not wait for it.
    response_turn_ = true;
    if (responses_.empty() || offset_ != 0) break;
  }
  if (!batch_.empty()) return true;
  // Requests that need no bytes on the wire are done here.
  sent_ = next_;
  ReportDone();
  return false;
}

// Puts the places of the next `length` bytes of the request at next_ into `scratch_`. Unless they are copied, the pins
// stay with the batch.
bool Transmitter::FindPayload(const Request& request, size_t length, bool copy) {
  scratch_.Clear();
  if (!request.inline_data.empty()) {
    scratch_.pieces.push_back({const_cast<uint8_t*>(request.inline_data.data()) + offset_, length});
    return true;
  }
  if (!PinSlice(attributes_.memory, request.sges, offset_, length, 0, attributes_.domain, &scratch_)) {
    scratch_.Clear();
    return false;
  }
  if (copy || state_.markers_to_peer) return true;
  for (MemoryTable::Pin& pin : scratch_.pins) {
    if (batch_pins_.empty() || batch_pins_.back().token() != pin.token()) batch_pins_.push_back(std::move(pin));
  }
  return true;
}

bool Transmitter::CarryOutChange(Request* request) {
  switch (request->type) {
    case OperationType::kBind:
      return request->window->CarryOutBind(&request->change, request->region.get());
    case OperationType::kFastRegister:
      return request->region->Publish(&request->change);
    default:
      return attributes_.memory->Withdraw(request->change.entry, request->change.token);
  }
}

// False: it has to wait, or has failed.
bool Transmitter::StartRequest(Request* request) {
  if (hold_) return false;
  const bool waits_for_reads = (request->flags & kOpReadFence) != 0 && !reads_.empty();
  const bool waits_for_limit = request->type == OperationType::kRead && reads_.size() >= state_.outbound_read_limit;
  if (waits_for_reads || waits_for_limit) return false;
  request->started = true;
  if (!request->inline_data.empty()) return true;
  // All of it, before the first byte is sent.
  const uint32_t rights = request->type == OperationType::kRead ? kLocalWrite : 0;
  if (MayUse(attributes_.memory, request->sges, request->length, rights, attributes_.domain)) return true;
  FailRequest(request, NdkStatus::kAccessViolation, kLocalError);
  return false;
}

// False: the request at next_ has to wait, or has failed.
bool Transmitter::EmitRequest() {
  Request& request = At(next_);
  if (!request.started && !StartRequest(&request)) return false;
  switch (request.type) {
    case OperationType::kRead:
      return EmitReadRequest(&request);
    case OperationType::kSend:
    case OperationType::kWrite:
      break;
    default:
      // What is pinned cannot be changed; the batch goes first.
      if (!batch_pins_.empty()) return false;
      if (!CarryOutChange(&request)) {
        FailRequest(&request, NdkStatus::kInvalidDeviceRequest, kLocalError);
        return false;
      }
      request.done = true;
      ++next_;
      return true;
  }
  const bool write = request.type == OperationType::kWrite;
  const size_t header_length = write ? kTaggedHeaderLength : kUntaggedHeaderLength;
  const size_t room = MaxPayloadLength(state_.fpdu_limit, header_length, state_.markers_to_peer);
  const size_t length = std::min<size_t>(room, request.length - offset_);
  SegmentHeader header = {.tagged = write, .last = offset_ + length == request.length, .opcode = request.opcode};
  if (write) {
    header.stag = static_cast<uint32_t>(request.remote.token);
    header.tagged_offset = request.remote.address + offset_;
  } else {
    header.invalidate_stag = static_cast<uint32_t>(request.invalidate);
    header.msn = state_.next_send_msn[kSendQueue];
    header.message_offset = offset_;
  }
  const bool copy = length <= kCopyBelow || state_.crc;
  if (copy && owned_length_ + length + kMaxFpduHeaderLength + kMaxFpduTrailerLength > kOwnedBytes) return false;
  if (!FindPayload(request, length, copy)) {
    FailRequest(&request, NdkStatus::kAccessViolation, kLocalError);
    return false;
  }
  EmitFpdu(header, scratch_.pieces, length, copy);
  scratch_.Clear();
  offset_ += static_cast<uint32_t>(length);
  if (!header.last) return true;
  if (!write) ++state_.next_send_msn[kSendQueue];
  offset_ = 0;
  request.done = true;
  ++next_;
  response_turn_ = true;
  return true;
}

bool Transmitter::EmitReadRequest(Request* request) {
  ReadRequest read;
  read.length = request->length;
  read.source_stag = static_cast<uint32_t>(request->remote.token);
  read.source_offset = request->remote.address;
  if (!request->sges.empty()) {
    read.sink_stag = static_cast<uint32_t>(request->sges.front().token);
    read.sink_offset = reinterpret_cast<uint64_t>(request->sges.front().address);
  }
  uint8_t payload[kReadRequestLength];
  EncodeReadRequest(read, payload);
  scratch_.Clear();
  scratch_.pieces.push_back({payload, sizeof payload});
  EmitFpdu({.last = true,
            .opcode = Opcode::kReadRequest,
            .queue = kReadRequestQueue,
            .msn = state_.next_send_msn[kReadRequestQueue]++},
           scratch_.pieces, sizeof payload, true);
  reads_.push_back(next_);
  ++next_;
  response_turn_ = true;
  return true;
}

// Responses are always copied: the memory may change or go away at any time, and neither may spoil the stream, whose
// CRC and lengths are settled before the socket takes the bytes.
void Transmitter::EmitResponse() {
  ReadResponse& response = responses_.front();
  const ReadRequest& read = response.request;
  const size_t room = MaxPayloadLength(state_.fpdu_limit, kTaggedHeaderLength, state_.markers_to_peer);
  const size_t length = std::min<size_t>(room, read.length - response.sent);
  scratch_.Clear();
  if (length > 0) {
    MemoryTable::Pin pin = attributes_.memory->Lookup(read.source_stag);
    const uint64_t from = read.source_offset + response.sent;
    if (!pin || CheckAccess(*pin, from, length, kRemoteRead, attributes_.domain, attributes_.queue_pair) !=
                    AccessVerdict::kAllowed) {
      failed_ = true;
      return;
    }
    AppendPieces(*pin, from, length, &scratch_.pieces);
    scratch_.pins.push_back(std::move(pin));
  }
  const SegmentHeader header = {.tagged = true,
                                .last = response.sent + length == read.length,
                                .opcode = Opcode::kReadResponse,
                                .stag = read.sink_stag,
                                .tagged_offset = read.sink_offset + response.sent};
  EmitFpdu(header, scratch_.pieces, length, true);
  scratch_.Clear();
  response.sent += static_cast<uint32_t>(length);
  if (!header.last) return;
  responses_.pop_front();
  response_turn_ = false;
}

// The bytes are at the end of `owned_` already.
void Transmitter::AppendOwned(size_t length) {
  uint8_t* const at = owned_.get() + owned_length_;
  owned_length_ += length;
  batch_bytes_ += length;
  if (!batch_.empty() && static_cast<uint8_t*>(batch_.back().iov_base) + batch_.back().iov_len == at) {
    batch_.back().iov_len += length;
  } else {
    batch_.push_back({at, length});
  }
}

// `payload` has `length` bytes. With a CRC it is copied.
void Transmitter::EmitFpdu(const SegmentHeader& header, const std::vector<iovec>& payload, size_t length, bool copy) {
  if (state_.markers_to_peer) return EmitMarkedFpdu(header, payload);
  const size_t ulpdu_length = header.length() + length;
  uint8_t* at = owned_.get() + owned_length_;
  Crc32c sum;
  const auto own = [&](size_t bytes) {
    if (state_.crc) sum.Add({at, bytes});
    AppendOwned(bytes);
    at += bytes;
  };
  StoreU16(at, static_cast<uint16_t>(ulpdu_length));
  EncodeSegmentHeader(header, at + kUlpduLengthField);
  own(kUlpduLengthField + header.length());
  if (copy) {
    // The sum is made while the copy is in the nearest cache.
    for (const iovec& piece : payload) {
      for (size_t done = 0; done < piece.iov_len;) {
        const size_t some = std::min(piece.iov_len - done, kCopiedAtOnce);
        std::memcpy(at, static_cast<const uint8_t*>(piece.iov_base) + done, some);
        own(some);
        done += some;
      }
    }
  } else {
    batch_.insert(batch_.end(), payload.begin(), payload.end());
    batch_bytes_ += length;
  }
  const size_t pad = PadLength(ulpdu_length);
  std::memset(at, 0, pad + kCrcLength);
  own(pad);
  if (state_.crc) sum.Store(at);
  AppendOwned(kCrcLength);
}

// Markers cut through everything, so such FPDUs are made in one piece.
void Transmitter::EmitMarkedFpdu(const SegmentHeader& header, const std::vector<iovec>& payload) {
  std::vector<uint8_t> bytes;
  for (const iovec& piece : payload) {
    const auto* const begin = static_cast<const uint8_t*>(piece.iov_base);
    bytes.insert(bytes.end(), begin, begin + piece.iov_len);
  }
  inserter_.Append(ComposeFpdu(header, bytes, false), state_.crc, &marked_);
  batch_.assign(1, {marked_.data(), marked_.size()});
  batch_bytes_ = marked_.size();
}

}  // namespace rdmabroker::iwarp
