// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/negotiation.h"

#include <algorithm>
#include <utility>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/fpdu_decoder.h"

namespace rdmabroker::iwarp {
namespace {

uint16_t OnWire(uint32_t limit) { return static_cast<uint16_t>(std::min<uint32_t>(limit, kMaxReadLimit)); }

uint32_t FpduLimit(const Offer& offer) { return std::clamp(offer.fpdu_limit, kMinFpduLength, kMaxFpduLength); }

// The form that an initiator picks among those that both sides named.
ReadyToReceive PreferredForm(const EnhancedData& data) {
  if (!data.peer_to_peer) return ReadyToReceive::kNone;
  if (data.rtr_write) return ReadyToReceive::kWrite;
  if (data.rtr_read) return ReadyToReceive::kRead;
  return data.rtr_send ? ReadyToReceive::kSend : ReadyToReceive::kNone;
}

// A reply speaks the request's revision.
StartupFrame ReplyTo(const StartupFrame& request, std::string_view private_data) {
  StartupFrame reply;
  reply.kind = StartupKind::kReply;
  reply.revision = request.revision;
  reply.private_data = private_data;
  return reply;
}

absl::Status CheckPrivateData(const StartupFrame& frame) { return EncodeStartupFrame(frame).status(); }

std::vector<uint8_t> Send(const SegmentHeader& header, std::span<const uint8_t> payload, ConnectionState* state) {
  std::vector<uint8_t> fpdu = ComposeFpdu(header, payload, state->crc);
  if (state->markers_to_peer) {
    MarkerInserter inserter(state->bytes_sent);
    std::vector<uint8_t> marked;
    inserter.Append(fpdu, state->crc, &marked);
    fpdu = std::move(marked);
  }
  state->bytes_sent += fpdu.size();
  return fpdu;
}

absl::Status WrongMessage(std::string_view what) {
  return absl::InvalidArgumentError("ready-to-receive message: " + std::string(what));
}

// Takes one whole FPDU. Nothing if it is not complete.
absl::StatusOr<std::optional<size_t>> TakeFpdu(std::span<const uint8_t> input, FpduDecoder* decoder,
                                               std::vector<uint8_t>* payload) {
  size_t taken = 0;
  while (true) {
    const FpduDecoder::Step step = decoder->Next(input.subspan(taken));
    const auto bytes = input.subspan(taken, step.taken);
    taken += step.taken;
    switch (step.event) {
      case FpduDecoder::Event::kNeedMore:
        return std::nullopt;
      case FpduDecoder::Event::kError:
        return WrongMessage(TerminateCauseName(decoder->error()));
      case FpduDecoder::Event::kSegment:
        if (decoder->payload_length() > kReadRequestLength) return WrongMessage("it carries data");
        break;
      case FpduDecoder::Event::kPayload:
        payload->insert(payload->end(), bytes.begin(), bytes.end());
        break;
      case FpduDecoder::Event::kSegmentEnd:
        return taken;
    }
  }
}

// The form of a complete message, kNone if it is none.
ReadyToReceive FormOf(const SegmentHeader& header, std::span<const uint8_t> payload, const ConnectionState& state) {
  if (!header.last) return ReadyToReceive::kNone;
  switch (header.opcode) {
    case Opcode::kWrite:
      return payload.empty() ? ReadyToReceive::kWrite : ReadyToReceive::kNone;
    case Opcode::kReadRequest:
      return header.msn == state.next_receive_msn[kReadRequestQueue] &&
                     DecodeReadRequest(payload.first<kReadRequestLength>()).length == 0
                 ? ReadyToReceive::kRead
                 : ReadyToReceive::kNone;
    case Opcode::kSend:
      return payload.empty() && header.msn == state.next_receive_msn[kSendQueue] && header.message_offset == 0
                 ? ReadyToReceive::kSend
                 : ReadyToReceive::kNone;
    default:
      return ReadyToReceive::kNone;
  }
}

}  // namespace

absl::StatusOr<StartupFrame> BuildRequest(const Offer& offer, std::string_view private_data) {
  StartupFrame request;
  request.crc = offer.crc;
  request.enhanced = EnhancedData{.peer_to_peer = true,
                                  .rtr_write = true,
                                  .rtr_read = true,
                                  .inbound_read_limit = OnWire(offer.inbound_read_limit),
                                  .outbound_read_limit = OnWire(offer.outbound_read_limit)};
  request.private_data = private_data;
  if (absl::Status status = CheckPrivateData(request); !status.ok()) return status;
  return request;
}

RequestTerms TermsOf(const StartupFrame& request) {
  if (!request.enhanced) return {kMaxReadLimit, kMaxReadLimit, false};
  return {request.enhanced->outbound_read_limit, request.enhanced->inbound_read_limit,
          PreferredForm(*request.enhanced) != ReadyToReceive::kNone};
}

absl::StatusOr<AcceptedRequest> BuildReply(const StartupFrame& request, const Offer& offer,
                                           std::string_view private_data) {
  const RequestTerms terms = TermsOf(request);
  AcceptedRequest accepted = {ReplyTo(request, private_data), {}};
  ConnectionState& state = accepted.state;
  state.role = Role::kResponder;
  state.crc = request.crc || offer.crc;
  state.markers_to_peer = request.markers;
  state.fpdu_limit = FpduLimit(offer);
  state.inbound_read_limit = std::min(offer.inbound_read_limit, terms.inbound_read_limit);
  state.outbound_read_limit = std::min(offer.outbound_read_limit, terms.outbound_read_limit);
  state.peer_data = request.private_data;
  accepted.reply.crc = state.crc;
  if (request.enhanced) {
    state.ready_to_receive = PreferredForm(*request.enhanced);
    EnhancedData answer = *request.enhanced;
    if (!terms.three_way) answer = EnhancedData{};
    answer.inbound_read_limit = OnWire(state.inbound_read_limit);
    answer.outbound_read_limit = OnWire(state.outbound_read_limit);
    accepted.reply.enhanced = answer;
  }
  if (absl::Status status = CheckPrivateData(accepted.reply); !status.ok()) return status;
  return accepted;
}

absl::StatusOr<StartupFrame> BuildReject(const StartupFrame& request, std::string_view private_data) {
  StartupFrame reply = ReplyTo(request, private_data);
  reply.crc = request.crc;
  reply.reject = true;
  if (request.enhanced) reply.enhanced = EnhancedData{};
  if (absl::Status status = CheckPrivateData(reply); !status.ok()) return status;
  return reply;
}

absl::StatusOr<std::variant<ConnectionState, Rejected>> CheckReply(const StartupFrame& request, const Offer& offer,
                                                                   const StartupFrame& reply) {
  using Outcome = std::variant<ConnectionState, Rejected>;
  if (reply.reject) return Outcome(Rejected{reply.private_data});
  ConnectionState state;
  state.role = Role::kInitiator;
  state.crc = request.crc || reply.crc;
  state.markers_to_peer = reply.markers;
  state.fpdu_limit = FpduLimit(offer);
  state.inbound_read_limit = OnWire(offer.inbound_read_limit);
  state.outbound_read_limit = OnWire(offer.outbound_read_limit);
  state.peer_data = reply.private_data;
  // A peer of RFC 5044 negotiates neither limits nor a third step.
  if (!reply.enhanced || !request.enhanced) return Outcome(state);
  const EnhancedData& answer = *reply.enhanced;
  if (answer.outbound_read_limit > state.inbound_read_limit && answer.outbound_read_limit != kMaxReadLimit) {
    return absl::InvalidArgumentError("MPA reply: the peer wants to issue " +
                                      std::to_string(answer.outbound_read_limit) + " reads at a time, " +
                                      std::to_string(state.inbound_read_limit) + " were offered");
  }
  state.inbound_read_limit = std::min<uint32_t>(state.inbound_read_limit, answer.outbound_read_limit);
  state.outbound_read_limit = std::min<uint32_t>(state.outbound_read_limit, answer.inbound_read_limit);
  EnhancedData both = answer;
  both.rtr_write &= request.enhanced->rtr_write;
  both.rtr_read &= request.enhanced->rtr_read;
  both.rtr_send &= request.enhanced->rtr_send;
  state.ready_to_receive = PreferredForm(both);
  if (answer.peer_to_peer && state.ready_to_receive == ReadyToReceive::kNone) {
    return absl::InvalidArgumentError(
        "MPA reply: the peer wants a ready-to-receive message in a form that was not offered");
  }
  return Outcome(state);
}

std::vector<uint8_t> ReadyToReceiveMessage(ConnectionState* state) {
  // A zero-length access is not checked against any buffer (RFC 5040, section 5.2), so STags and offsets are zero.
  switch (state->ready_to_receive) {
    case ReadyToReceive::kWrite:
      return Send({.tagged = true, .last = true, .opcode = Opcode::kWrite}, {}, state);
    case ReadyToReceive::kRead: {
      uint8_t payload[kReadRequestLength];
      EncodeReadRequest({}, payload);
      state->read_response_due = true;
      return Send({.last = true,
                   .opcode = Opcode::kReadRequest,
                   .queue = kReadRequestQueue,
                   .msn = state->next_send_msn[kReadRequestQueue]++},
                  payload, state);
    }
    case ReadyToReceive::kSend:
      return Send({.last = true, .opcode = Opcode::kSend, .msn = state->next_send_msn[kSendQueue]++}, {}, state);
    case ReadyToReceive::kNone:
      break;
  }
  return {};
}

absl::StatusOr<std::optional<ReadyToReceiveTaken>> TakeReadyToReceive(std::span<const uint8_t> input,
                                                                      ConnectionState* state) {
  FpduDecoder decoder(state->crc);
  std::vector<uint8_t> payload;
  const auto length = TakeFpdu(input, &decoder, &payload);
  if (!length.ok()) return length.status();
  if (!length->has_value()) return std::nullopt;
  const ReadyToReceive form = FormOf(decoder.header(), payload, *state);
  if (form == ReadyToReceive::kNone)
    return WrongMessage("it is neither an empty write, nor an empty read, nor an empty send");
  state->ready_to_receive = form;
  ReadyToReceiveTaken taken = {**length, {}};
  if (form == ReadyToReceive::kSend) ++state->next_receive_msn[kSendQueue];
  if (form == ReadyToReceive::kRead) {
    ++state->next_receive_msn[kReadRequestQueue];
    const ReadRequest request = DecodeReadRequest(std::span<const uint8_t>(payload).first<kReadRequestLength>());
    taken.response = Send({.tagged = true,
                           .last = true,
                           .opcode = Opcode::kReadResponse,
                           .stag = request.sink_stag,
                           .tagged_offset = request.sink_offset},
                          {}, state);
  }
  return taken;
}

}  // namespace rdmabroker::iwarp
