// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_NEGOTIATION_H_
#define DATAPLANE_IWARP_WIRE_NEGOTIATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker::iwarp {

// The MPA handshake without the socket. As initiator:
//   request = BuildRequest(offer, data); send EncodeStartupFrame(*request)
//   reply = DecodeStartupFrame(...); outcome = CheckReply(*request, offer, reply)
//   if the state is three_way: send ReadyToReceiveMessage(&state)
// As responder:
//   request = DecodeStartupFrame(...); terms = TermsOf(request)
//   accepted = BuildReply(request, offer, data); send EncodeStartupFrame(accepted->reply)   (or BuildReject)
//   if the state is three_way: TakeReadyToReceive(bytes, &state) until it answers; send its response if it has one
// Then the state and the socket are the connection.

// What this side wants.
struct Offer {
  bool crc = true;  // CRC is in use if either side wants it.
  // Already capped by the adapter; more than the wire can say is capped again.
  uint32_t inbound_read_limit = 0;
  uint32_t outbound_read_limit = 0;
  uint32_t fpdu_limit = kMinFpduLength;  // As in ConnectionState; cut to what FPDUs can have.
};

// Offers a write, else a read, as ready-to-receive message. INVALID_ARGUMENT if the private data is too long.
absl::StatusOr<StartupFrame> BuildRequest(const Offer& offer, std::string_view private_data);

// What a request grants at most to the one who accepts it; a peer of revision 1 says nothing about it: kMaxReadLimit.
struct RequestTerms {
  uint32_t inbound_read_limit = 0;   // The peer issues no more reads at a time.
  uint32_t outbound_read_limit = 0;  // The peer serves no more reads at a time.
  bool three_way = false;
};
RequestTerms TermsOf(const StartupFrame& request);

struct AcceptedRequest {
  StartupFrame reply;
  // ready_to_receive is what the initiator will most likely send; TakeReadyToReceive corrects it.
  ConnectionState state;
};
absl::StatusOr<AcceptedRequest> BuildReply(const StartupFrame& request, const Offer& offer,
                                           std::string_view private_data);
absl::StatusOr<StartupFrame> BuildReject(const StartupFrame& request, std::string_view private_data);

struct Rejected {
  std::string private_data;
};
// `request` is the one that this side sent. INVALID_ARGUMENT if the reply does not answer it.
absl::StatusOr<std::variant<ConnectionState, Rejected>> CheckReply(const StartupFrame& request, const Offer& offer,
                                                                   const StartupFrame& reply);

// The bytes of the initiator's message. The state is three_way; its message numbers move on.
std::vector<uint8_t> ReadyToReceiveMessage(ConnectionState* state);

struct ReadyToReceiveTaken {
  size_t length = 0;              // Bytes of the input that were the message.
  std::vector<uint8_t> response;  // To be sent at once: a read wants its empty response. Empty for the other forms.
};
// The responder's side. Nothing if the message is not complete yet; INVALID_ARGUMENT if the peer sends something else.
// Any of the three forms will do. The state changes only when the message is complete.
absl::StatusOr<std::optional<ReadyToReceiveTaken>> TakeReadyToReceive(std::span<const uint8_t> input,
                                                                      ConnectionState* state);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_NEGOTIATION_H_
