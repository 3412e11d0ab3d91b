// SPDX-License-Identifier: Apache-2.0

#include "broker/core/broker_core.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "broker/core/endpoints.h"
#include "broker/core/invariants.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/recovery.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

// The requests that only close.
Outcome Perform(Turn& turn, const Call& call, const CloseAdapter& request) {
  return Close(turn, call, request.adapter);
}

Outcome Perform(Turn& turn, const Call& call, const CloseListener& request) {
  return Close(turn, call, request.listener);
}

Outcome Perform(Turn& turn, const Call& call, const CloseSharedEndpoint& request) {
  return Close(turn, call, request.shared_endpoint);
}

Outcome Perform(Turn& turn, const Call& call, const CloseConnector& request) {
  return Close(turn, call, request.connector);
}

Outcome PerformUnlessOverwhelmed(Turn& turn, const ClientRequest& event) {
  const SessionRecord& session = std::as_const(turn.records.sessions).at(event.session);
  if (!OnlyEnds(event.request)) {
    if (IsOverwhelmed(turn, session)) {
      return Refuse(NdkStatus::kInsufficientResources, "session ", event.session.value(),
                    ": too many events are not acknowledged; acknowledge them");
    }
    if (auto refusal = RefuseIfFull(turn, session.identity.uid)) return *std::move(refusal);
  }
  // Only now: a device that the client may not know of must not be told from one that is not there.
  if (event.refusal) return *event.refusal;
  const auto perform = [&](const auto& request) { return Perform(turn, Call{event.session, event.id}, request); };
  return std::visit(perform, event.request);
}

void Handle(Turn& turn, const ClientRequest& event) {
  if (auto outcome = AnswerWithoutActing(turn.records, event)) {
    turn.Emit(Answer{event.session, event.id, *std::move(outcome)});
    return;
  }
  Outcome outcome = TakeAcknowledgement(turn, event);
  if (outcome.status == NdkStatus::kSuccess) outcome = PerformUnlessOverwhelmed(turn, event);
  Give(turn, event, std::move(outcome));
}

// Handles each due deadline once, as far as the turn's budget goes. The others stay due.
void Handle(Turn& turn, const DeadlineReached&) {
  DropLeftovers(turn);
  const auto& sessions = turn.index.deadlines.sessions;
  for (auto next = sessions.begin(); next != sessions.end() && next->first <= turn.now();) {
    const auto due = *next;
    OnDeadline(turn, due.second);
    next = sessions.upper_bound(due);
  }
  const std::vector<ConnectorId> connectors = turn.index.deadlines.Due(turn.now(), turn.left.timeouts);
  turn.left.timeouts -= static_cast<uint32_t>(connectors.size());
  for (const ConnectorId id : connectors) OnDeadline(turn, id);
}

// An overload of Handle for each alternative, a fabric's reports included; a missing one does not compile.
void Dispatch(Turn& turn, const Event& event) {
  const auto handle = [&](const auto& typed) { Handle(turn, typed); };
  if (const auto* report = std::get_if<FabricReport>(&event)) return std::visit(handle, *report);
  std::visit(
      [&](const auto& typed) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(typed)>, FabricReport>) handle(typed);
      },
      event);
}

}  // namespace

bool OnlyEnds(const Request& request) {
  return std::holds_alternative<CloseAdapter>(request) || std::holds_alternative<CloseListener>(request) ||
         std::holds_alternative<CloseSharedEndpoint>(request) || std::holds_alternative<CloseConnector>(request) ||
         std::holds_alternative<ReleasePort>(request) || std::holds_alternative<ReportConnectionEnd>(request);
}

Outcome UnknownDevice(const std::string& name) {
  return Refuse(NdkStatus::kObjectNameNotFound, "device \"", name, "\": unknown; ListAdapters names those there are");
}

BrokerCore::BrokerCore(const Limits& limits, uint64_t lineage, uint64_t id_key) : limits_(limits) {
  records_.lineage = lineage;
  records_.counters.id_key = id_key;
}
BrokerCore::BrokerCore(const BrokerCore&) = default;
BrokerCore::BrokerCore(BrokerCore&&) noexcept = default;
BrokerCore& BrokerCore::operator=(const BrokerCore&) = default;
BrokerCore& BrokerCore::operator=(BrokerCore&&) noexcept = default;
BrokerCore::~BrokerCore() = default;

Effects BrokerCore::Handle(Instant now, const Event& event) {
  TurnBudget left = limits_.a_turn;
  return Handle(now, event, &left);
}

Effects BrokerCore::Handle(Instant now, const Event& event, TurnBudget* left) {
  if (now < records_.now) {
    std::fputs("broker core: time went back\n", stderr);
    std::abort();
  }
  const Instant before = std::exchange(records_.now, now);
  Effects effects;
  Turn turn{limits_, records_, index_, effects, tally_, before, *left};
  Dispatch(turn, event);
  return effects;
}

bool BrokerCore::IsNew(const ClientRequest& request) const {
  return !AnswerWithoutActing(records_, request).has_value();
}

Holdings BrokerCore::HoldingsOf(uint32_t uid) const {
  const auto objects = index_.objects_of_uid.find(uid);
  const uint32_t undecided = objects == index_.objects_of_uid.end() ? 0 : objects->second.undecided;
  return {.sessions = index_.lists.sessions.CountOf(uid),
          .listeners = index_.lists.listeners.CountOf(uid),
          .connectors = index_.lists.connectors.CountOf(uid) - undecided};
}

Instant BrokerCore::NextDeadline() const {
  if (!index_.undropped.empty()) return records_.now;
  return index_.deadlines.First();
}

absl::StatusOr<BrokerCore> BrokerCore::Restore(const Limits& limits, const Records& records) {
  if (absl::Status status = CheckRecords(records); !status.ok()) {
    return absl::InvalidArgumentError(status.message());
  }
  BrokerCore core(limits);
  core.records_ = records;
  // What the records noted was for another core's caller.
  for (const ChangeReader reader : {ChangeReader::kStore, ChangeReader::kWatches}) core.StopTaking(reader);
  core.index_ = Index::Of(records);
  return core;
}

Changes BrokerCore::TakeChanges(ChangeReader reader) {
  Taking& taking = taking_[static_cast<size_t>(reader)];
  Changes changes;
  ForEachTable([&](auto& table, auto& ids) { ids = table.TakeNotes(reader); }, records_, changes);
  changes.all = !std::exchange(taking.begun, true);
  changes.counters = records_.counters != std::exchange(taking.counters, records_.counters) && !changes.all;
  return changes;
}

void BrokerCore::StopTaking(ChangeReader reader) {
  ForEachTable([&](auto& table) { table.StopNoting(reader); }, records_);
  taking_[static_cast<size_t>(reader)] = {};
}

absl::Status BrokerCore::CheckInvariants() const {
  if (absl::Status status = CheckRecords(records_); !status.ok()) return status;
  if (absl::Status status = CheckLimits(records_, limits_); !status.ok()) return status;
  return CheckIndex(records_, index_);
}

}  // namespace rdmabroker
