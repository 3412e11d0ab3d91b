// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/inbound.h"

#include <algorithm>
#include <utility>

namespace rdmabroker::rpc {
namespace {

// The flag and four octets of length.
constexpr size_t kPrefix = 5;

}  // namespace

std::string Framed(std::string_view message) {
  std::string framed;
  framed.reserve(kPrefix + message.size());
  framed += '\0';
  for (int shift = 24; shift >= 0; shift -= 8) framed += static_cast<char>(message.size() >> shift);
  return framed.append(message);
}

size_t MessageReader::LengthAt(size_t begin) const {
  size_t length = 0;
  for (size_t i = 1; i < kPrefix; ++i) length = length << 8 | static_cast<uint8_t>(octets_[begin + i]);
  return length;
}

MessageFault MessageReader::FaultAt(size_t begin) const {
  if (begin == octets_.size()) return MessageFault::kNone;
  if (octets_[begin] != 0) return MessageFault::kMalformed;
  return octets_.size() - begin >= kPrefix && LengthAt(begin) > longest_ ? MessageFault::kTooLong : MessageFault::kNone;
}

size_t MessageReader::Append(std::string_view octets) {
  octets_.append(octets);
  size_t messages = 0;
  while (octets_.size() - whole_ >= kPrefix && FaultAt(whole_) == MessageFault::kNone) {
    const size_t size = kPrefix + LengthAt(whole_);
    if (octets_.size() - whole_ < size) break;
    whole_ += size;
    ++messages;
  }
  return messages;
}

bool MessageReader::HasMoreThanOne() const { return HasMessage() && size() > kPrefix + LengthAt(begin_); }

std::string MessageReader::Take() {
  const size_t length = LengthAt(begin_);
  std::string message = octets_.substr(begin_ + kPrefix, length);
  begin_ += kPrefix + length;
  // What is copied is shorter than what was read before it. Nothing else gives memory back.
  if (begin_ >= size()) {
    std::string(octets_, begin_).swap(octets_);
    whole_ -= begin_;
    begin_ = 0;
  }
  return message;
}

void Inbound::Add(CallId call) { calls_.emplace(call, Call{.reader = MessageReader(bounds_.longest)}); }

void Inbound::Remove(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const Call call = std::move(found->second);
  calls_.erase(found);
  size_ -= call.reader.size();
  if (call.waits) waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  if (call.held > 0) more_(id, call.held);
  if (!call.granted) return;
  --granted_;
  GrantNext();
}

size_t Inbound::Append(CallId id, std::string_view octets) {
  Call& call = calls_.at(id);
  const size_t messages = call.reader.Append(octets);
  call.held += octets.size();
  size_ += octets.size();
  GiveWindow(id, call);
  return messages;
}

std::string Inbound::Take(CallId id) {
  Call& call = calls_.at(id);
  const size_t before = call.reader.size();
  std::string message = call.reader.Take();
  size_ -= before - call.reader.size();
  if (std::exchange(call.granted, false)) {
    --granted_;
    // Others first: this call may have a long message again.
    GrantNext();
  }
  GiveWindow(id, call);
  return message;
}

void Inbound::GiveWindow(CallId id, Call& call) {
  const bool unfinished = call.reader.size() > 0 && !call.reader.HasMessage();
  // The peer may be unable to send more: nghttp2 tells it of window by halves.
  if (unfinished && !call.granted && !call.waits && call.held >= bounds_.window / 2) {
    call.granted = granted_ < bounds_.long_messages;
    call.waits = !call.granted;
    if (call.granted) ++granted_;
    if (call.waits) waiting_.push_back(id);
  }
  const size_t keep = unfinished && call.granted ? 0 : call.reader.size();
  if (call.held <= keep) return;
  more_(id, call.held - keep);
  call.held = keep;
}

void Inbound::GrantNext() {
  while (granted_ < bounds_.long_messages && !waiting_.empty()) {
    const CallId id = waiting_.front();
    waiting_.pop_front();
    Call& call = calls_.at(id);
    call.waits = false;
    GiveWindow(id, call);
  }
}

}  // namespace rdmabroker::rpc
