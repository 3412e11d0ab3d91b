// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/hostile_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "proto/rpc/inbound.h"
#include "proto/rpc/testing/frames.h"

namespace rdmabroker::tenants {
namespace {

constexpr size_t kFrameHeader = 9;
constexpr int64_t kWidest = 0x7FFFFFFF;

uint64_t NumberIn(std::string_view octets) {
  uint64_t number = 0;
  for (const char octet : octets) number = number << 8 | static_cast<uint8_t>(octet);
  return number;
}

}  // namespace

std::string OpeningWith(uint32_t stream_window) {
  const std::string setting =
      rpc::BigEndian(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2) + rpc::BigEndian(stream_window, 4);
  return NGHTTP2_CLIENT_MAGIC + rpc::Frame(NGHTTP2_SETTINGS, 0, 0, setting);
}

std::string WideOpening() {
  return OpeningWith(kWidest) + rpc::Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, rpc::BigEndian(kWidest - 65535, 4));
}

HostileConnection::HostileConnection(Attacker& attacker, std::unique_ptr<Wire> wire, std::string opening,
                                     Reading reading)
    : attacker_(attacker),
      wire_(std::move(wire)),
      reading_(reading),
      answers_(opening.size() > NGHTTP2_CLIENT_MAGIC_LEN),
      out_(std::move(opening)) {
  nghttp2_hd_inflater* inflater = nullptr;
  nghttp2_hd_inflate_new(&inflater);
  inflater_.reset(inflater);
}

HostileConnection::~HostileConnection() {
  attacker_.Count("connections");
  attacker_.Count("octets", sent_);
  attacker_.Count("replies", replies_);
  attacker_.Count("ended", over_ && !left_ ? 1 : 0);
  for (const auto& [status, times] : statuses_) attacker_.Count("status " + status, times);
  for (const auto& [error, times] : resets_) attacker_.Count("reset " + std::to_string(error), times);
  if (goaway_) attacker_.Count("goaway " + std::to_string(*goaway_));
}

std::unique_ptr<HostileConnection> HostileConnection::Connect(Attacker& attacker, std::string opening,
                                                              Reading reading) {
  UniqueFd socket = attacker.ConnectToUnix(attacker.places().control_socket, SOCK_STREAM);
  if (!socket) return nullptr;
  return std::make_unique<HostileConnection>(attacker, std::make_unique<PlainWire>(std::move(socket)),
                                             std::move(opening), reading);
}

void HostileConnection::Exchange() {
  SendBodies();
  Write();
  if (reading_ == Reading::kAll) Read();
}

bool HostileConnection::Until(const std::function<bool()>& condition) {
  // The condition may take what it looks for, so that it holds once.
  while (true) {
    Exchange();
    if (condition()) return true;
    if (over_ || !attacker_.GoesOn()) return false;
    Wait();
  }
}

void HostileConnection::Wait() const {
  constexpr int kLookMs = 10;
  pollfd ready = {wire_->fd(), static_cast<int16_t>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0};
  ::poll(&ready, 1, kLookMs);
}

void HostileConnection::Write() {
  while (!out_.empty() && !over_) {
    const ssize_t size = wire_->Write(out_);
    if (size == 0) return;
    if (size < 0) return End();
    sent_ += static_cast<uint64_t>(size);
    out_.erase(0, static_cast<size_t>(size));
  }
}

// What the broker said last is still to be read.
void HostileConnection::End() {
  if (reading_ == Reading::kAll) Read();
  over_ = true;
  out_.clear();
}

void HostileConnection::Read() {
  std::array<char, 65536> octets;
  while (!over_) {
    const ssize_t size = wire_->Read(octets.data(), octets.size());
    if (size == 0) return;
    over_ = size < 0;
    if (over_) return;
    in_.append(octets.data(), static_cast<size_t>(size));
    size_t at = 0;
    while (in_.size() - at >= kFrameHeader) {
      const std::string_view frame = std::string_view(in_).substr(at);
      const size_t length = NumberIn(frame.substr(0, 3));
      if (frame.size() < kFrameHeader + length) break;
      const auto stream = static_cast<int32_t>(NumberIn(frame.substr(5, 4)));
      Take(static_cast<uint8_t>(frame[3]), static_cast<uint8_t>(frame[4]), stream, frame.substr(kFrameHeader, length));
      at += kFrameHeader + length;
    }
    in_.erase(0, at);
  }
}

void HostileConnection::Take(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload) {
  switch (type) {
    case NGHTTP2_SETTINGS:
      if ((flags & NGHTTP2_FLAG_ACK) == 0) TakeSettings(payload);
      break;
    case NGHTTP2_WINDOW_UPDATE:
      if (stream == 0) window_ += static_cast<int64_t>(NumberIn(payload));
      if (const auto body = bodies_.find(stream); body != bodies_.end()) {
        body->second.window += static_cast<int64_t>(NumberIn(payload));
      }
      break;
    case NGHTTP2_HEADERS:
      TakeHeaders(payload);
      break;
    case NGHTTP2_DATA:
      ++replies_;
      if (const auto kept = kept_.find(stream); kept != kept_.end()) kept->second += payload;
      break;
    case NGHTTP2_RST_STREAM:
      ++resets_[static_cast<uint32_t>(NumberIn(payload))];
      open_.erase(stream);
      bodies_.erase(stream);
      break;
    case NGHTTP2_GOAWAY:
      goaway_ = static_cast<uint32_t>(NumberIn(payload.substr(4, 4)));
      break;
    default:
      break;
  }
  const bool last = type == NGHTTP2_HEADERS || type == NGHTTP2_DATA;
  if (last && (flags & NGHTTP2_FLAG_END_STREAM) != 0) open_.erase(stream);
}

void HostileConnection::TakeSettings(std::string_view settings) {
  constexpr size_t kSetting = 6;
  stream_window_ = 65535;
  for (; settings.size() >= kSetting; settings.remove_prefix(kSetting)) {
    const bool is_window = NumberIn(settings.substr(0, 2)) == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    if (is_window) stream_window_ = static_cast<int64_t>(NumberIn(settings.substr(2, 4)));
  }
  if (answers_) out_ += rpc::SettingsAck();
}

void HostileConnection::TakeHeaders(std::string_view block) {
  const auto* at = reinterpret_cast<const uint8_t*>(block.data());
  const uint8_t* const end = at + block.size();
  while (true) {
    nghttp2_nv field = {};
    int flags = 0;
    const ssize_t size = nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, at, static_cast<size_t>(end - at), 1);
    if (size < 0) return;
    at += size;
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      const std::string_view name(reinterpret_cast<const char*>(field.name), field.namelen);
      if (name == "grpc-status") ++statuses_[{reinterpret_cast<const char*>(field.value), field.valuelen}];
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && at == end) break;
  }
  nghttp2_hd_inflate_end_headers(inflater_.get());
}

int32_t HostileConnection::Begin(const std::string& path) {
  const int32_t stream = NewStream();
  open_.insert(stream);
  out_ += rpc::HeadersFrame(stream, rpc::CallHeaders(path));
  return stream;
}

int32_t HostileConnection::Call(const std::string& path, std::string_view request) {
  const int32_t stream = Begin(path);
  out_ += rpc::DataFrame(stream, rpc::Framed(request), NGHTTP2_FLAG_END_STREAM);
  return stream;
}

int32_t HostileConnection::CallAtLength(const std::string& path, std::string_view request, bool whole) {
  const int32_t stream = Begin(path);
  std::string octets = rpc::Framed(request);
  if (!whole) octets.pop_back();
  bodies_[stream] = {std::move(octets), stream_window_, whole};
  return stream;
}

void HostileConnection::SendBodies() {
  constexpr int64_t kFrame = 16384;
  for (auto at = bodies_.begin(); at != bodies_.end();) {
    auto& [stream, body] = *at;
    while (!body.octets.empty() && out_.size() < kMostWaiting) {
      const auto room = static_cast<size_t>(std::max<int64_t>(0, std::min({kFrame, body.window, window_})));
      const std::string piece = body.octets.substr(0, room);
      if (piece.empty()) break;
      body.octets.erase(0, piece.size());
      body.window -= static_cast<int64_t>(piece.size());
      window_ -= static_cast<int64_t>(piece.size());
      const bool last = body.whole && body.octets.empty();
      out_ += rpc::DataFrame(stream, piece, last ? NGHTTP2_FLAG_END_STREAM : 0);
    }
    at = body.octets.empty() ? bodies_.erase(at) : std::next(at);
  }
}

void HostileConnection::Message(int32_t stream, std::string_view message) {
  out_ += rpc::DataFrame(stream, rpc::Framed(message));
}

void HostileConnection::Cancel(int32_t stream) {
  open_.erase(stream);
  out_ += rpc::ResetFrame(stream, NGHTTP2_CANCEL);
}

std::optional<std::string> HostileConnection::TakeMessage(int32_t stream) {
  constexpr size_t kPrefix = 5;
  std::string& data = kept_[stream];
  if (data.size() < kPrefix) return std::nullopt;
  const size_t length = NumberIn(std::string_view(data).substr(1, 4));
  if (data.size() < kPrefix + length) return std::nullopt;
  std::string message = data.substr(kPrefix, length);
  data.erase(0, kPrefix + length);
  return message;
}

}  // namespace rdmabroker::tenants
