// SPDX-License-Identifier: Apache-2.0

// Clients' requests, from their bytes to their answers, at a core that a random walk has led somewhere. The first byte
// chooses the state; then come the requests, each a byte for the kind, one for the session, two for the length, and the
// message.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "broker/control/translation.h"
#include "broker/core/broker_core.h"
#include "broker/core/testing/random_walk.h"
#include "dataplane/ndk/status.h"
#include "tests/fuzz.h"

namespace rdmabroker {
namespace {

using Bytes = std::span<const uint8_t>;

// Returns nothing if the bytes are not such a message; gRPC refuses those.
template <typename Message>
std::optional<Translated> Translate(Bytes bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return FromProto(message);
}

// Each request of the contract, and any of them in a batch. A kind is a place in here.
constexpr std::array kTranslations = {
    &Translate<v1::OpenAdapterRequest>,
    &Translate<v1::CloseAdapterRequest>,
    &Translate<v1::CreateListenerRequest>,
    &Translate<v1::ListenRequest>,
    &Translate<v1::ControlConnectEventsRequest>,
    &Translate<v1::CloseListenerRequest>,
    &Translate<v1::CreateSharedEndpointRequest>,
    &Translate<v1::CloseSharedEndpointRequest>,
    &Translate<v1::ReservePortRequest>,
    &Translate<v1::ReleasePortRequest>,
    &Translate<v1::CreateConnectorRequest>,
    &Translate<v1::ConnectRequest>,
    &Translate<v1::ConnectWithSharedEndpointRequest>,
    &Translate<v1::CompleteConnectRequest>,
    &Translate<v1::AcceptRequest>,
    &Translate<v1::RejectRequest>,
    &Translate<v1::DisconnectRequest>,
    &Translate<v1::GetConnectionDataRequest>,
    &Translate<v1::ReportConnectionEndRequest>,
    &Translate<v1::CloseConnectorRequest>,
    &Translate<v1::BatchedRequest>,
};
static_assert(kTranslations.size() == std::variant_size_v<Request::variant> + 1);

// States along a few walks, from the first steps on.
std::vector<BrokerCore> MakeStates() {
  constexpr uint32_t kWalks = 4;
  constexpr int kSteps = 80;
  constexpr int kBetween = 5;
  std::vector<BrokerCore> states;
  for (uint32_t seed = 1; seed <= kWalks; ++seed) {
    RandomWalk walk(seed);
    for (int step = 1; step <= kSteps; ++step) {
      walk.Step();
      if (step % kBetween == 0) states.push_back(walk.core());
    }
  }
  return states;
}

// Numbers the live sessions in the order of their ids.
std::optional<SessionId> SessionAt(const BrokerCore& core, uint8_t number) {
  std::vector<SessionId> live;
  for (const auto& [id, session] : core.records().sessions) {
    if (!session.ended) live.push_back(id);
  }
  if (live.empty()) return std::nullopt;
  std::sort(live.begin(), live.end());
  return live[number % live.size()];
}

void RequireAnswerFits(const Outcome& outcome) {
  v1::Outcome message;
  ToProto(outcome, &message);
  Require(IsSuccess(outcome.status) || !outcome.hint.empty(), "a refusal says why");
  Require(IsSuccess(outcome.status) || std::holds_alternative<std::monostate>(outcome.payload),
          "a refusal has no result");
}

// Lets the core handle it, and returns the answer.
Outcome Ask(BrokerCore& core, const ClientRequest& request) {
  const Effects effects = core.Handle(core.records().now, request);
  std::optional<Outcome> answer;
  for (const Effect& effect : effects) {
    if (const auto* event = std::get_if<NumberedEvent>(&effect)) {
      v1::SessionEvent message;
      ToProto(*event, &message);
    }
    const auto* given = std::get_if<Answer>(&effect);
    if (given == nullptr) continue;
    Require(!answer && given->session == request.session && given->id == request.id, "a request has one answer");
    answer = given->outcome;
  }
  Require(answer.has_value(), "a request has an answer");
  const absl::Status invariants = core.CheckInvariants();
  Require(invariants.ok(), invariants.ToString());
  RequireAnswerFits(*answer);
  return *answer;
}

// What a refusal must leave as it was: all but the answer that its session keeps, and ids that are not used again.
Records WithoutAnswers(Records records) {
  records.counters = Counters();
  for (const auto& [id, _] : std::as_const(records).sessions) {
    records.sessions.at(id).answers.clear();
    records.sessions.at(id).newest_request = RequestId();
  }
  return records;
}

void Handle(BrokerCore& core, SessionId session, const Request& request) {
  const RequestId id(core.records().sessions.at(session).newest_request.value() + 1);
  const ClientRequest asked{session, id, core.records().sessions.at(session).acknowledged, request};
  const Records before = core.records();
  const Outcome answer = Ask(core, asked);
  Require(IsSuccess(answer.status) || WithoutAnswers(core.records()) == WithoutAnswers(before),
          "a refusal changes nothing");
  const Records after = core.records();
  Require(Ask(core, asked) == answer && core.records() == after, "a repeat has the same answer and changes nothing");
}

}  // namespace
}  // namespace rdmabroker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  constexpr int kMostRequests = 16;
  static const auto* const kStates = new std::vector<BrokerCore>(MakeStates());
  FuzzInput input(data, size);
  BrokerCore core = kStates->at(input.Byte() % kStates->size());
  for (int asked = 0; asked < kMostRequests && !input.empty(); ++asked) {
    const size_t kind = input.Byte() % kTranslations.size();
    const std::optional<SessionId> session = SessionAt(core, input.Byte());
    const std::optional<Translated> translated = kTranslations[kind](input.Piece(input.Whole<uint16_t>()));
    if (!translated || !session) continue;
    if (const auto* malformed = std::get_if<Outcome>(&*translated)) {
      Require(!IsSuccess(malformed->status), "what is malformed is refused");
      RequireAnswerFits(*malformed);
      continue;
    }
    Handle(core, *session, std::get<Request>(*translated));
  }
  return 0;
}
