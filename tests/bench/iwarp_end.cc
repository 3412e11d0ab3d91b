// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/iwarp_end.h"

#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <variant>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker::bench {
namespace {

constexpr uint32_t kQueueDepth = 2 * kWindow;

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

void SendAll(int socket, const void* bytes, size_t length) {
  Require(::send(socket, bytes, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length), "send");
}

// Reads no further than the frame, so that nothing is left over.
iwarp::StartupFrame ReceiveFrame(int socket, iwarp::StartupKind kind) {
  std::vector<uint8_t> input;
  while (true) {
    uint8_t byte = 0;
    Require(::recv(socket, &byte, 1, 0) == 1, "recv");
    input.push_back(byte);
    const auto decoded = iwarp::DecodeStartupFrame(input, kind);
    Require(decoded.ok(), "DecodeStartupFrame");
    if (*decoded) return (*decoded)->frame;
  }
}

iwarp::ConnectionState Initiate(int socket, const iwarp::Offer& offer) {
  const auto request = iwarp::BuildRequest(offer, "");
  Require(request.ok(), "BuildRequest");
  const std::string bytes = *iwarp::EncodeStartupFrame(*request);
  SendAll(socket, bytes.data(), bytes.size());
  const auto answer = iwarp::CheckReply(*request, offer, ReceiveFrame(socket, iwarp::StartupKind::kReply));
  Require(answer.ok() && std::holds_alternative<iwarp::ConnectionState>(*answer), "CheckReply");
  auto state = std::get<iwarp::ConnectionState>(*answer);
  Require(state.three_way(), "a three-way handshake");
  const std::vector<uint8_t> ready = iwarp::ReadyToReceiveMessage(&state);
  SendAll(socket, ready.data(), ready.size());
  return state;
}

iwarp::ConnectionState Respond(int socket, const iwarp::Offer& offer, std::string_view private_data) {
  const auto request = ReceiveFrame(socket, iwarp::StartupKind::kRequest);
  const auto accepted = iwarp::BuildReply(request, offer, private_data);
  Require(accepted.ok(), "BuildReply");
  const std::string bytes = *iwarp::EncodeStartupFrame(accepted->reply);
  SendAll(socket, bytes.data(), bytes.size());
  iwarp::ConnectionState state = accepted->state;
  std::vector<uint8_t> input;
  while (true) {
    uint8_t byte = 0;
    Require(::recv(socket, &byte, 1, 0) == 1, "recv");
    input.push_back(byte);
    const auto taken = iwarp::TakeReadyToReceive(input, &state);
    Require(taken.ok(), "TakeReadyToReceive");
    if (*taken) return state;
  }
}

}  // namespace

IwarpEnd::IwarpEnd(UniqueFd socket, iwarp::Role role, bool crc, std::span<uint8_t> buffer, int receives,
                   uint32_t receive_length)
    : buffer_(buffer) {
  Adapter* const adapter = iwarp::OpenAdapter().object;
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  cq_ = adapter->CreateCompletionQueue(4 * kQueueDepth, nullptr).object;
  region_ = domain->CreateMemoryRegion(false).object;
  Require(region_->Register(buffer.data(), buffer.size(), kMrAllowRemoteWrite) == NdkStatus::kSuccess, "Register");
  queue_pair_ = domain
                    ->CreateQueuePair({.receive_cq = cq_,
                                       .initiator_cq = cq_,
                                       .receive_queue_depth = kQueueDepth,
                                       .initiator_queue_depth = kQueueDepth,
                                       .max_receive_request_sge = 1,
                                       .max_initiator_request_sge = 1})
                    .object;
  for (int i = 0; i < receives; ++i) PostReceive(receive_length);
  // As the broker offers to a peer on the same machine.
  const iwarp::Offer offer = {.crc = crc, .fpdu_limit = iwarp::kMaxFpduLength};
  const RemoteMemory mine = {reinterpret_cast<uint64_t>(buffer.data()), region_->remote_token()};
  iwarp::ConnectionState state;
  if (role == iwarp::Role::kInitiator) {
    state = Initiate(socket.get(), offer);
    Require(state.peer_data.size() == sizeof peer_, "the private data");
    std::memcpy(&peer_, state.peer_data.data(), sizeof peer_);
  } else {
    state = Respond(socket.get(), offer, std::string_view(reinterpret_cast<const char*>(&mine), sizeof mine));
  }
  Require(state.crc == crc, "the negotiation of the CRC");
  Require(queue_pair_->Attach({std::move(socket), iwarp::EncodeConnectionState(state)},
                              [](const ConnectionEnd& end) {
                                if (!end.graceful)
                                  std::fprintf(stderr, "the connection broke: provider error %x\n", end.provider_error);
                              }) == NdkStatus::kSuccess,
          "Attach");
}

Sge IwarpEnd::Bytes(uint32_t length) const { return {buffer_.data(), length, region_->local_token()}; }

void IwarpEnd::PostWrite(uint32_t length) {
  const Sge sge = Bytes(length);
  Require(queue_pair_->Write(nullptr, {&sge, 1}, peer_, 0) == NdkStatus::kSuccess, "Write");
}

void IwarpEnd::PostSend(uint32_t length) {
  const Sge sge = Bytes(length);
  Require(queue_pair_->Send(nullptr, {&sge, 1}, 0) == NdkStatus::kSuccess, "Send");
}

void IwarpEnd::PostReceive(uint32_t length) {
  const Sge sge = Bytes(length);
  Require(queue_pair_->Receive(nullptr, {&sge, 1}) == NdkStatus::kSuccess, "Receive");
}

void IwarpEnd::Await(OperationType type, int count) {
  int& awaited = type == OperationType::kWrite ? writes_ : type == OperationType::kSend ? sends_ : receives_;
  std::array<ResultEx, kWindow> results;
  while (awaited < count) {
    const size_t got = cq_->GetResultsEx(results);
    for (const ResultEx& result : std::span(results).first(got)) {
      if (result.status != NdkStatus::kSuccess) {
        std::fprintf(stderr, "status %x, provider error %x: ", static_cast<unsigned>(result.status),
                     result.provider_error);
        Require(false, "a request");
      }
      ++(result.type == OperationType::kWrite ? writes_ : result.type == OperationType::kSend ? sends_ : receives_);
    }
  }
  awaited -= count;
}

}  // namespace rdmabroker::bench
