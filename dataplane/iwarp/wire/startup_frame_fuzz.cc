// SPDX-License-Identifier: Apache-2.0

// MPA's start-up frames on both sides, and the handshake that goes on from one: its two ends agree. The first four
// bytes are this side's offer, the rest is what comes from the peer.

#include "dataplane/iwarp/wire/startup_frame.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "tests/fuzz.h"

namespace rdmabroker::iwarp {
namespace {

// The frame that the input begins with, if it has a whole one.
std::optional<StartupFrame> Decode(std::span<const uint8_t> input, StartupKind kind) {
  const auto decoded = DecodeStartupFrame(input, kind);
  for (size_t length = 0; length < input.size(); ++length) {
    const auto begun = DecodeStartupFrame(input.first(length), kind);
    if (decoded.ok() && decoded->has_value() && length >= (*decoded)->length) {
      Require(begun.ok() && begun->has_value(), "what follows a frame changes nothing");
      break;
    }
    Require(!begun.ok() || !begun->has_value(), "a frame is not whole before its end");
    Require(begun.ok() || !decoded.ok(), "what cannot be a frame becomes none by more bytes");
  }
  if (!decoded.ok() || !decoded->has_value()) {
    Require(!decoded.ok() || input.size() < kStartupHeaderLength + kMaxStartupPrivateData, "no more bytes are wanted");
    return std::nullopt;
  }
  const StartupFrame& frame = (*decoded)->frame;
  const auto encoded = EncodeStartupFrame(frame);
  Require(encoded.ok() && encoded->size() == (*decoded)->length, "a frame is written in as many bytes as it came in");
  const auto again = DecodeStartupFrame(AsBytes(*encoded), kind);
  Require(again.ok() && again->has_value() && (*again)->frame == frame,
          "a frame that is written and read again is the same");
  return frame;
}

void CheckState(const ConnectionState& state, const Offer& offer) {
  Require(state.inbound_read_limit <= offer.inbound_read_limit, "the peer issues no more reads than were offered");
  Require(state.outbound_read_limit <= offer.outbound_read_limit, "no more reads are issued than were offered");
  const auto handed_over = DecodeConnectionState(EncodeConnectionState(state));
  Require(handed_over.ok() && *handed_over == state, "a connection's state can be handed over");
}

// The third step, which the initiator takes and the responder waits for.
void FinishHandshake(ConnectionState initiator, ConnectionState responder) {
  const ConnectionState before = responder;
  // This side knows no markers: a peer that wants them puts none into what it sends.
  initiator.markers_to_peer = false;
  const std::vector<uint8_t> message = ReadyToReceiveMessage(&initiator);
  for (size_t length = 0; length < message.size(); ++length) {
    const auto begun = TakeReadyToReceive(std::span(message).first(length), &responder);
    Require(begun.ok() && !begun->has_value() && responder == before, "half a message changes nothing");
  }
  const auto taken = TakeReadyToReceive(message, &responder);
  Require(taken.ok() && taken->has_value() && (*taken)->length == message.size(), "the message is taken");
  Require(responder.ready_to_receive == initiator.ready_to_receive, "both know its form");
  Require(responder.next_receive_msn == initiator.next_send_msn, "both count it");
  Require((*taken)->response.empty() != initiator.read_response_due, "a read is answered");
}

// This side as responder; the peer that sent the request then gets its reply.
void Accept(const StartupFrame& request, const Offer& offer, std::string_view private_data) {
  const auto reject = BuildReject(request, private_data);
  Require(reject.ok() && Decode(AsBytes(*EncodeStartupFrame(*reject)), StartupKind::kReply) == *reject,
          "a reject is a frame");
  const auto accepted = BuildReply(request, offer, private_data);
  Require(accepted.ok(), "a request can be accepted");
  CheckState(accepted->state, offer);
  Require(Decode(AsBytes(*EncodeStartupFrame(accepted->reply)), StartupKind::kReply) == accepted->reply,
          "a reply is a frame");
  Offer of_peer = {.crc = request.crc, .inbound_read_limit = kMaxReadLimit, .outbound_read_limit = kMaxReadLimit};
  if (request.enhanced) {
    of_peer.inbound_read_limit = request.enhanced->inbound_read_limit;
    of_peer.outbound_read_limit = request.enhanced->outbound_read_limit;
  }
  const auto outcome = CheckReply(request, of_peer, accepted->reply);
  Require(outcome.ok() && std::holds_alternative<ConnectionState>(*outcome), "the reply answers the request");
  const auto& state = std::get<ConnectionState>(*outcome);
  Require(state.crc == accepted->state.crc, "both sides use a CRC or none does");
  Require(state.three_way() == accepted->state.three_way(), "both sides know whether there is a third step");
  if (request.enhanced) {
    Require(state.outbound_read_limit <= accepted->state.inbound_read_limit, "the peer may issue so many reads");
    Require(accepted->state.outbound_read_limit <= state.inbound_read_limit, "this side may issue so many reads");
  }
  if (state.three_way()) FinishHandshake(state, accepted->state);
}

// This side as initiator.
void TakeReply(const StartupFrame& reply, const Offer& offer, std::string_view private_data) {
  const auto request = BuildRequest(offer, private_data);
  Require(request.ok(), "the request is well formed");
  const auto outcome = CheckReply(*request, offer, reply);
  Require(!reply.reject || (outcome.ok() && std::holds_alternative<Rejected>(*outcome)), "a reject is one");
  if (!outcome.ok() || !std::holds_alternative<ConnectionState>(*outcome)) return;
  const auto& state = std::get<ConnectionState>(*outcome);
  CheckState(state, offer);
  ConnectionState responder;
  responder.role = Role::kResponder;
  responder.crc = state.crc;
  if (state.three_way()) FinishHandshake(state, responder);
}

}  // namespace
}  // namespace rdmabroker::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::iwarp;
  FuzzInput input(data, size);
  const uint8_t choices = input.Byte();
  const StartupKind kind = (choices & 1) != 0 ? StartupKind::kReply : StartupKind::kRequest;
  const Offer offer = {
      .crc = (choices & 2) != 0, .inbound_read_limit = input.Byte(), .outbound_read_limit = input.Byte()};
  const std::string private_data(input.Byte(), 'p');
  const std::optional<StartupFrame> frame = Decode(input.Rest(), kind);
  if (!frame) return 0;
  if (kind == StartupKind::kRequest) {
    Accept(*frame, offer, private_data);
  } else {
    TakeReply(*frame, offer, private_data);
  }
  return 0;
}
