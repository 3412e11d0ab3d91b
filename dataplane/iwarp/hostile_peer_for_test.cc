// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/hostile_peer_for_test.h"

#include <algorithm>
#include <utility>

#include "dataplane/iwarp/wire/crc32c.h"
#include "dataplane/iwarp/wire/fpdu.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxPayload = 20'000;  // More than a region.

// What the peer does wrong in an FPDU.
enum : uint8_t { kTag = 1, kPlace = 2, kNumber = 4, kQueue = 8, kHeader = 16, kSum = 32, kStag = 64 };

}  // namespace

Bytes HostilePeer::SomePayload(size_t length) const {
  return Bytes(length, static_cast<uint8_t>(1 + fpdus_ % (kShown - 1)));
}

Bytes HostilePeer::NextFpdu() {
  const uint8_t kind = input_->Byte(), wrong = input_->Byte();
  ++fpdus_;
  SegmentHeader header;
  header.opcode = static_cast<Opcode>(kind & 7);
  header.last = (kind & 8) == 0;
  header.tagged = header.opcode == Opcode::kWrite || header.opcode == Opcode::kReadResponse;
  const Bytes payload = header.tagged ? FillTagged(wrong, &header) : FillUntagged(wrong, &header);
  if ((wrong & kTag) != 0) header.tagged = !header.tagged;
  if ((wrong & kNumber) != 0) {
    const auto difference = static_cast<uint32_t>(int{static_cast<int8_t>(input_->Byte())});
    header.msn += difference;
    if (!header.tagged && difference != 0) Doom();
  }
  if ((wrong & kQueue) != 0) header.queue = input_->Byte();
  Bytes fpdu = ComposeFpdu(header, payload, crc_);
  if ((wrong & kHeader) != 0) {
    sends_fpdus_ = false;
    const size_t at = input_->Byte() % (kUlpduLengthField + header.length());
    fpdu[at] ^= input_->Byte();
    const size_t covered = fpdu.size() - kCrcLength;
    Crc32c sum;
    sum.Add({fpdu.data(), covered});
    if (crc_) sum.Store(&fpdu[covered]);
  }
  if ((wrong & kSum) != 0) {
    fpdu.back() ^= 1;
    if (crc_) Doom();
  }
  return fpdu;
}

Bytes HostilePeer::FillTagged(uint8_t wrong, SegmentHeader* header) {
  Target target;
  size_t offset = 0, length = 0;
  if (header->opcode == Opcode::kWrite) {
    target = {sees_.writable->stag(), sees_.writable};
    offset = TakeOffset(input_);
    length = TakeLength(input_, offset, kMaxPayload);
  } else if (!std::exchange(empty_response_due_, false) && !reads_.empty()) {
    auto& [begin, left] = reads_.front();
    target = {sees_.sink->stag(), sees_.sink};
    offset = begin;
    length = header->last ? left : std::min<size_t>(left, input_->Whole<uint16_t>());
    begin += length;
    left -= length;
    if (header->last) reads_.pop_front();
  }
  if ((wrong & kStag) != 0) target = AnyTarget();
  header->stag = target.stag;
  if (target.memory != nullptr) header->tagged_offset = target.memory->address(offset);
  if ((wrong & kPlace) != 0) {
    header->tagged_offset += SomeDifference();
    length = input_->Whole<uint16_t>() % kMaxPayload;
  }
  return SomePayload(length);
}

Bytes HostilePeer::FillUntagged(uint8_t wrong, SegmentHeader* header) {
  header->queue = header->opcode == Opcode::kReadRequest ? kReadRequestQueue
                  : header->opcode == Opcode::kTerminate ? kTerminateQueue
                                                         : kSendQueue;
  header->msn = next_msn_[header->queue];
  if (header->opcode == Opcode::kTerminate) {
    const auto payload = input_->Piece(input_->Byte());
    return {payload.begin(), payload.end()};
  }
  if (header->opcode == Opcode::kReadRequest) {
    ++next_msn_[kReadRequestQueue];
    const size_t offset = TakeOffset(input_);
    const size_t length = TakeLength(input_, offset, kRegionSize);
    Target source = {sees_.readable->stag(), sees_.readable};
    if ((wrong & kStag) != 0) source = AnyTarget();
    ReadRequest read = {.sink_stag = 1, .sink_offset = 2, .length = static_cast<uint32_t>(length)};
    read.source_stag = source.stag;
    if (source.memory != nullptr) read.source_offset = source.memory->address(offset);
    if ((wrong & kPlace) != 0) {
      read.source_offset += SomeDifference();
      read.length = input_->Whole<uint32_t>();
    }
    Bytes payload(kReadRequestLength);
    EncodeReadRequest(read, payload.data());
    return payload;
  }
  if (Invalidates(header->opcode)) header->invalidate_stag = static_cast<uint32_t>(sees_.window->remote_token());
  header->message_offset = message_offset_;
  if ((wrong & kStag) != 0) header->invalidate_stag = AnyTarget().stag;
  if ((wrong & kPlace) != 0) header->message_offset += static_cast<uint32_t>(static_cast<int8_t>(input_->Byte()));
  const size_t length = input_->Whole<uint16_t>() % kMaxPayload;
  message_offset_ = header->last ? 0 : message_offset_ + static_cast<uint32_t>(length);
  if (header->last) ++next_msn_[kSendQueue];
  return SomePayload(length);
}

HostilePeer::Target HostilePeer::AnyTarget() {
  const size_t choice = input_->Byte() % (sees_.regions.size() + 3);
  if (choice < sees_.regions.size()) return {sees_.regions[choice]->stag(), sees_.regions[choice]};
  switch (choice - sees_.regions.size()) {
    case 0:
      return {static_cast<uint32_t>(sees_.window->remote_token()), sees_.bound};
    case 1:
      return {sees_.writable->stag() ^ 1, sees_.writable};
    default:
      return {input_->Whole<uint32_t>(), nullptr};
  }
}

}  // namespace rdmabroker::iwarp
