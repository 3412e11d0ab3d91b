// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/connection_state.h"

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker::iwarp {
namespace {

constexpr uint32_t kMagic = 0x49574353;  // "IWCS"
constexpr uint16_t kVersion = 1;

constexpr uint8_t kCrcFlag = 0x01;
constexpr uint8_t kMarkersFlag = 0x02;
constexpr uint8_t kReadResponseDueFlag = 0x04;
constexpr uint8_t kKnownFlags = kCrcFlag | kMarkersFlag | kReadResponseDueFlag;

// Magic, version, role, form, flags, FPDU limit, two read limits, six message numbers, bytes sent, two lengths.
constexpr size_t kFixedLength = 4 + 2 + 1 + 1 + 1 + 4 + 4 + 4 + 6 * 4 + 8 + 4 + 4;
static_assert(kFixedLength <= 64);

class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  void U8(uint8_t value) { out_->push_back(static_cast<char>(value)); }
  void U16(uint16_t value) { U8(static_cast<uint8_t>(value >> 8)), U8(static_cast<uint8_t>(value)); }
  void U32(uint32_t value) { U16(static_cast<uint16_t>(value >> 16)), U16(static_cast<uint16_t>(value)); }
  void U64(uint64_t value) { U32(static_cast<uint32_t>(value >> 32)), U32(static_cast<uint32_t>(value)); }

 private:
  std::string* out_;
};

// Reads a record whose fixed part is known to be there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : at_(AsBytes(bytes).data()) {}
  uint8_t U8() { return *at_++; }
  uint16_t U16() { return LoadU16((at_ += 2) - 2); }
  uint32_t U32() { return LoadU32((at_ += 4) - 4); }
  uint64_t U64() { return LoadU64((at_ += 8) - 8); }

 private:
  const uint8_t* at_;
};

absl::Status Bad(std::string_view field, uint64_t value) {
  return absl::InvalidArgumentError("connection state: " + std::string(field) + " is " + std::to_string(value) +
                                    ", which is impossible");
}

absl::Status Check(uint8_t role, uint8_t form, uint8_t flags, const ConnectionState& state) {
  if (role > static_cast<uint8_t>(Role::kResponder)) return Bad("role", role);
  if (form > static_cast<uint8_t>(ReadyToReceive::kSend)) return Bad("ready_to_receive", form);
  if ((flags & ~kKnownFlags) != 0) return Bad("flags", flags);
  if (state.fpdu_limit < kMinFpduLength || state.fpdu_limit > kMaxFpduLength)
    return Bad("fpdu_limit", state.fpdu_limit);
  if (state.bytes_sent % 4 != 0) return Bad("bytes_sent", state.bytes_sent);
  return absl::OkStatus();
}

}  // namespace

std::string EncodeConnectionState(const ConnectionState& state) {
  std::string out;
  out.reserve(kFixedLength + state.unread.size() + state.peer_data.size());
  Writer writer(&out);
  writer.U32(kMagic);
  writer.U16(kVersion);
  writer.U8(static_cast<uint8_t>(state.role));
  writer.U8(static_cast<uint8_t>(state.ready_to_receive));
  writer.U8(static_cast<uint8_t>((state.crc ? kCrcFlag : 0) | (state.markers_to_peer ? kMarkersFlag : 0) |
                                 (state.read_response_due ? kReadResponseDueFlag : 0)));
  writer.U32(state.fpdu_limit);
  writer.U32(state.inbound_read_limit);
  writer.U32(state.outbound_read_limit);
  for (const uint32_t msn : state.next_send_msn) writer.U32(msn);
  for (const uint32_t msn : state.next_receive_msn) writer.U32(msn);
  writer.U64(state.bytes_sent);
  writer.U32(static_cast<uint32_t>(state.unread.size()));
  writer.U32(static_cast<uint32_t>(state.peer_data.size()));
  out += state.unread;
  out += state.peer_data;
  return out;
}

absl::StatusOr<ConnectionState> DecodeConnectionState(std::string_view bytes) {
  if (bytes.size() < kFixedLength) return Bad("length", bytes.size());
  Reader reader(bytes);
  if (const uint32_t magic = reader.U32(); magic != kMagic) return Bad("magic", magic);
  if (const uint16_t version = reader.U16(); version != kVersion) {
    return absl::UnimplementedError("connection state: version " + std::to_string(version) +
                                    " is not supported, only " + std::to_string(kVersion) +
                                    "; broker and client library must fit together");
  }
  ConnectionState state;
  const uint8_t role = reader.U8();
  const uint8_t form = reader.U8();
  const uint8_t flags = reader.U8();
  state.fpdu_limit = reader.U32();
  state.inbound_read_limit = reader.U32();
  state.outbound_read_limit = reader.U32();
  for (uint32_t& msn : state.next_send_msn) msn = reader.U32();
  for (uint32_t& msn : state.next_receive_msn) msn = reader.U32();
  state.bytes_sent = reader.U64();
  const uint32_t unread = reader.U32();
  const uint32_t peer_data = reader.U32();
  if (absl::Status status = Check(role, form, flags, state); !status.ok()) return status;
  if (unread > kMaxUnread) return Bad("length of unread", unread);
  if (peer_data > kMaxPeerData) return Bad("length of peer_data", peer_data);
  if (bytes.size() != kFixedLength + unread + peer_data) return Bad("length", bytes.size());
  state.role = static_cast<Role>(role);
  state.ready_to_receive = static_cast<ReadyToReceive>(form);
  state.crc = (flags & kCrcFlag) != 0;
  state.markers_to_peer = (flags & kMarkersFlag) != 0;
  state.read_response_due = (flags & kReadResponseDueFlag) != 0;
  state.unread = bytes.substr(kFixedLength, unread);
  state.peer_data = bytes.substr(kFixedLength + unread);
  return state;
}

}  // namespace rdmabroker::iwarp
