// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_CONNECTION_STATE_H_
#define DATAPLANE_IWARP_WIRE_CONNECTION_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/segment.h"

namespace rdmabroker::iwarp {

enum class Role : uint8_t { kInitiator = 0, kResponder = 1 };

// How the initiator's ready-to-receive message looks (RFC 6581, section 5). kNone: there is none, the handshake has two
// steps, and the responder sends nothing before the initiator's first FPDU (RFC 5044, section 7.1.3).
enum class ReadyToReceive : uint8_t { kNone = 0, kWrite = 1, kRead = 2, kSend = 3 };

inline constexpr size_t kMaxPeerData = 512;  // RFC 5044, section 7.1: the longest private data of a start-up frame.
// More than one FPDU cannot be waiting unread at the hand-over if the reader takes at most this much at a time; it
// keeps an encoded state within one message of a SOCK_SEQPACKET socket (whose default limit is about 200 KiB).
inline constexpr size_t kMaxUnread = 64 * 1024;

// All that a connection is besides its socket, from the end of the MPA handshake on: what one process hands to another
// that goes on with DDP on the same socket.
struct ConnectionState {
  Role role = Role::kInitiator;
  ReadyToReceive ready_to_receive = ReadyToReceive::kNone;
  bool crc = true;               // Both directions.
  bool markers_to_peer = false;  // The peer requires markers in what it receives.
  // Bytes of the longest FPDU to send, markers and CRC included: the path's MSS, or up to kMaxFpduLength where the one
  // who made the connection knows that the peer does not mind.
  uint32_t fpdu_limit = kMinFpduLength;
  uint32_t inbound_read_limit = 0;   // Reads of the peer that this side serves at a time.
  uint32_t outbound_read_limit = 0;  // Reads that this side may have in flight.
  // Of each untagged queue, the number of the next message.
  std::array<uint32_t, kQueueCount> next_send_msn = {1, 1, 1};
  std::array<uint32_t, kQueueCount> next_receive_msn = {1, 1, 1};
  // Bytes of FPDUs sent so far, markers included: tells where the next marker stands.
  uint64_t bytes_sent = 0;
  // The ready-to-receive message was a read and its empty response has not been seen yet.
  bool read_response_due = false;
  std::string unread;     // Bytes of the stream that were read from the socket but not dealt with.
  std::string peer_data;  // The private data of the peer's start-up frame.

  bool operator==(const ConnectionState&) const = default;
  bool three_way() const { return ready_to_receive != ReadyToReceive::kNone; }
  // Sends wait for the peer's first FPDU.
  bool holds_sends() const { return role == Role::kResponder && !three_way(); }
};

// A versioned encoding for a message between two processes of one machine. At most kMaxConnectionStateLength bytes.
inline constexpr size_t kMaxConnectionStateLength = 64 + kMaxUnread + kMaxPeerData;
std::string EncodeConnectionState(const ConnectionState& state);

// INVALID_ARGUMENT names the field that is wrong; UNIMPLEMENTED for another version.
absl::StatusOr<ConnectionState> DecodeConnectionState(std::string_view bytes);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_CONNECTION_STATE_H_
