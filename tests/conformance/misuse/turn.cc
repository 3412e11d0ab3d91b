// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/turn.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "dataplane/last_hint.h"
#include "dataplane/refusal.h"

namespace rdmabroker::misuse {
namespace {

// A thread's calls within callbacks within calls.
thread_local int depth = 0;
constexpr int kDeepest = 2;

bool IsOfBroker(Kind kind) { return kind <= Kind::kConnector; }

Lease Choose(Turn& turn, std::vector<OwnedPtr> candidates) {
  while (!candidates.empty()) {
    const size_t index = turn.dice.Below(candidates.size());
    if (Lease lease = turn.stage->Borrow(candidates[index])) return lease;
    candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(index));
  }
  return {};
}

std::vector<OwnedPtr> Filtered(const Turn& turn, const std::function<bool(const Owned&)>& fits) {
  std::vector<OwnedPtr> found = turn.stage->Objects();
  std::erase_if(found, [&](const OwnedPtr& object) { return !fits(*object); });
  return found;
}

const std::vector<Act>& AllActs() {
  static const auto* const kActs = [] {
    auto* const all = new std::vector<Act>;
    for (const auto& acts : {SessionActs(), ConnectorActs(), DataActs(), PostActs(), BlockingActs()}) {
      all->insert(all->end(), acts.begin(), acts.end());
    }
    return all;
  }();
  return *kActs;
}

uint64_t TotalWeight() {
  uint64_t total = 0;
  for (const Act& act : AllActs()) total += act.weight;
  return total;
}

// Runs it unless that would be too deep or too much.
void Within(const StagePtr& stage, uint64_t chance, const Place& place, size_t party,
            const std::function<void(Turn&)>& work) {
  if (depth >= kDeepest) return;
  ++depth;
  Turn turn = {.stage = stage, .dice = Dice(stage->seed * 1'000'003 + chance), .party = party, .place = place};
  work(turn);
  --depth;
}

}  // namespace

Lease Turn::Open(Kind kind, const std::function<bool(const Owned&)>& fits) {
  return Choose(*this, Filtered(*this, [&](const Owned& object) {
    return object.kind == kind && object.party == party && !object.close_called && (!fits || fits(object));
  }));
}

Lease Turn::Some(Kind kind) {
  const uint64_t luck = valid ? 0 : dice.Below(100);
  if (luck < 75) {
    if (Lease lease = Open(kind)) return lease;
    if (valid) return {};
  }
  return Choose(*this, Filtered(*this, [&](const Owned& object) {
    return object.kind == kind && (luck >= 90 || object.party == party);
  }));
}

Lease Turn::Any(bool of_broker) {
  return Choose(*this, Filtered(*this, [&](const Owned& object) { return IsOfBroker(object.kind) == of_broker; }));
}

TicketPtr Turn::Begin(const char* function, OwnedPtr owner, const std::string& about) {
  IndexOf(function);
  std::string what = absl::StrCat(party == 0 ? "a " : "b ", function);
  if (owner != nullptr) absl::StrAppend(&what, " of ", NameOf(*owner));
  if (!about.empty()) absl::StrAppend(&what, " (", about, ")");
  return stage->NewTicket(what, std::move(owner), place);
}

void Turn::CheckHint(const char* function, NdkStatus status) {
  const std::string_view name = function;
  // These have their hints in outcomes; and where the status is the answer, none is due.
  const bool has_outcome =
      name == "Session.Open" || (name.starts_with("Blocking") && !name.starts_with("BlockingClose"));
  const bool answers = name == "Extensible.QueryExtension";
  const bool refused = status != NdkStatus::kSuccess && status != NdkStatus::kPending && !has_outcome && !answers;
  if (refused && *LastHint() == '\0') {
    stage->Fail(absl::StrCat(function, " returns ", std::string(StatusName(status)), " without a hint"));
  }
  // So that the next one's is its own.
  Refuse(NdkStatus::kSuccess, "");
}

void Turn::End(const char* function, const TicketPtr& ticket, NdkStatus status) {
  CheckHint(function, status);
  stage->tally.Returned(IndexOf(function), status);
  ticket->Returned(status);
}

void Turn::Did(const char* function, NdkStatus status, const std::string& about) {
  CheckHint(function, status);
  const uint32_t number = stage->NextCall();
  stage->tally.Returned(IndexOf(function), status);
  stage->Log(absl::StrCat(number, ": ", party == 0 ? "a " : "b ", function, about.empty() ? "" : " of ", about, " = ",
                          std::string(StatusName(status))));
}

void Turn::Did(const char* function, const std::string& about) {
  const uint32_t number = stage->NextCall();
  stage->tally.Reached(IndexOf(function));
  stage->Log(absl::StrCat(number, ": ", party == 0 ? "a " : "b ", function, about.empty() ? "" : " of ", about));
}

size_t Turn::PartyOf(const TicketPtr& ticket) const {
  return ticket->owner() == nullptr ? party : ticket->owner()->party;
}

bool Turn::Close(const OwnedPtr& object) {
  if (object->broker != nullptr) {
    const bool first = stage->BeginClose(object);
    const TicketPtr ticket = Begin("BrokerObject.Close", object);
    const bool told = !Wrong(10);
    const NdkStatus status = object->broker->Close(told ? Closing(ticket, object) : CloseCompletion());
    if (status != NdkStatus::kPending && status != NdkStatus::kSuccess) stage->Fail("a close fails");
    End("BrokerObject.Close", ticket, status);
    // There is nobody whom the end could tell.
    if (!told) ticket->Waited();
    return first;
  }
  if (!stage->BeginClose(object)) return false;
  const TicketPtr ticket = Begin("DataObject.Close", object);
  const NdkStatus status = object->data->Close(Closing(ticket, object));
  if (status == NdkStatus::kSuccess) {
    if (object->running > 0) stage->Fail(NameOf(*object) + " is closed while a callback of it runs");
    if (object->closed.exchange(true)) stage->Fail(NameOf(*object) + " is closed twice");
  } else if (status != NdkStatus::kPending) {
    stage->Fail("a close fails");
  }
  End("DataObject.Close", ticket, status);
  return true;
}

CloseCompletion Turn::Closing(const TicketPtr& ticket, const OwnedPtr& object) {
  return [stage = stage, ticket, object, chance = dice.Below(1u << 30)] {
    if (object->running > 0) stage->Fail(NameOf(*object) + "'s close completes while a callback of it runs");
    if (object->closed.exchange(true)) stage->Fail(NameOf(*object) + " is closed twice");
    const Place here = {.where = object->broker != nullptr ? Where::kSessionThread : Where::kOther,
                        .party = object->party};
    const Callback callback(stage, nullptr, "the close of " + NameOf(*object), here);
    Interlude(stage, chance, here, object->party);
    ticket->Completed();
  };
}

client::OutcomeCompletion Turn::Completion(const TicketPtr& ticket, const char* what) {
  return [stage = stage, ticket, what, party = PartyOf(ticket),
          chance = dice.Below(1u << 30)](const client::Outcome& outcome) {
    const Place here = {.where = Where::kSessionThread, .party = party};
    const Callback callback(stage, ticket->owner(), what, here);
    if (outcome.status == NdkStatus::kPending) stage->Fail(absl::StrCat(what, " ends with PENDING"));
    stage->Log(absl::StrCat(ticket->number(), ": ends: ", std::string(StatusName(outcome.status)), " ", outcome.hint));
    Interlude(stage, chance, here, party);
    ticket->Completed();
  };
}

RequestCompletion Turn::StatusCompletion(const TicketPtr& ticket, const char* what) {
  return [stage = stage, ticket, what, party = PartyOf(ticket), chance = dice.Below(1u << 30)](NdkStatus status) {
    const Place here = {.where = Where::kOther, .party = party};
    const Callback callback(stage, ticket->owner(), what, here);
    stage->Log(absl::StrCat(ticket->number(), ": ends: ", std::string(StatusName(status))));
    Interlude(stage, chance, here, party);
    ticket->Completed();
  };
}

client::DisconnectEventCallback Turn::OnDisconnect(const OwnedPtr& connector) {
  if (Wrong()) return {};
  const auto events = std::make_shared<std::atomic<int>>(0);
  return [stage = stage, connector, events, chance = dice.Below(1u << 30)](const client::DisconnectEvent& event) {
    const Place here = {.where = Where::kSessionThread, .party = connector->party};
    const Callback callback(stage, connector, "a disconnect event", here);
    if (++*events > 1) stage->Fail(NameOf(*connector) + " has a second disconnect event");
    stage->Log(absl::StrCat("disconnect event of ", NameOf(*connector), ": ", std::string(StatusName(event.status))));
    Interlude(stage, chance, here, connector->party);
  };
}

// --- Arguments ---

SocketAddress Turn::Source() {
  const auto& ips = stage->on.ips;
  if (!Wrong()) return {ips[party][0], 0};
  const SocketAddress sources[] = {{ips[party][1], 0},
                                   {ips[1 - party][0], 0},
                                   {stage->on.foreign, 0},
                                   {IpAddress::Any(IpFamily::kIpv4), 0},
                                   {*IpAddress::Parse("224.0.0.1"), 0},
                                   {ips[party][0], 80},
                                   {ips[party][0], static_cast<uint16_t>(20'000 + dice.Below(4))}};
  return sources[dice.Below(std::size(sources))];
}

SocketAddress Turn::Destination() {
  if (towards.has_value()) return *towards;
  std::vector<SocketAddress> listening;
  if (dice.Percent(20)) listening = stage->addresses();
  if (!listening.empty()) return listening.back();
  if (!Wrong(20)) {
    for (const OwnedPtr& object : stage->Objects()) {
      if (object->kind != Kind::kListener || (valid && object->party == party) || object->close_called) continue;
      const auto address = std::static_pointer_cast<client::Listener>(object->broker)->address();
      if (address.has_value()) listening.push_back(*address);
    }
    if (!listening.empty()) return listening[dice.Below(listening.size())];
  }
  const auto& ips = stage->on.ips;
  const SocketAddress destinations[] = {{ips[1 - party][0], 9},
                                        {ips[party][0], 9},
                                        {ips[1 - party][1], 9},
                                        {stage->on.foreign, 9},
                                        {stage->on_kernels_device() ? stage->on.foreign : stage->on.silent, 9},
                                        {stage->on.no_route, 9},
                                        {IpAddress::Any(IpFamily::kIpv6), 9},
                                        {*IpAddress::Parse("224.0.0.1"), 9},
                                        {ips[1 - party][0], 0},
                                        {}};
  return destinations[dice.Below(std::size(destinations))];
}

client::ReadLimits Turn::Limits() {
  if (Wrong()) return {.inbound = static_cast<uint32_t>(-1), .outbound = static_cast<uint32_t>(dice.Below(3))};
  return {.inbound = 4, .outbound = 4};
}

std::string Turn::PrivateData() {
  if (Wrong(5)) return std::string(100'000, 'x');
  return std::string(dice.Below(20), 'y');
}

OpFlags Turn::Flags(OperationType type) {
  const OpFlags allowed = AllowedFlags(type);
  if (Wrong(5)) return static_cast<OpFlags>(dice.Below(0x400)) & (~OpFlags{kOpInline} | allowed);
  OpFlags flags = static_cast<OpFlags>(dice.Below(0x400)) & allowed;
  // All bits of a combined flag, or none.
  if ((flags & kOpAllowRemoteWrite) != kOpAllowRemoteWrite) flags &= ~kOpAllowRemoteWrite;
  if (!dice.Percent(10)) flags &= ~OpFlags{kOpInline};
  if (!dice.Percent(30)) flags &= ~OpFlags{kOpDefer};
  return flags;
}

std::vector<Sge> Turn::Places(const Owned& user, bool written, OpFlags flags) {
  const bool is_inline = (flags & kOpInline) != 0;
  std::vector<Sge> places(Wrong(5) ? 40 : dice.Below(3));
  for (Sge& sge : places) {
    const Lease region = Wrong(20) ? Some(Kind::kRegion)
                                   : Open(Kind::kRegion, [&](const Owned& r) { return r.instance == user.instance; });
    if (!region) return {};
    const uint32_t slot = written ? region->slots++ : 0;
    sge = {.address = region->memory + (written ? kFirstSlot + kSlot * (slot % (kFirstSlot / kSlot)) : 0),
           .length = static_cast<uint32_t>(written ? kSlot : 1 + dice.Below(kSlot)),
           .token = region.data<MemoryRegion>()->local_token()};
    // Bytes that are copied at once are read whatever they are, so they must be there.
    if (is_inline || !Wrong()) continue;
    switch (dice.Below(4)) {
      case 0:
        sge.token = LocalToken{static_cast<uint32_t>(dice.Below(1u << 31))};
        break;
      case 1:
        sge.address = region->memory + kMemory;
        break;
      case 2:
        sge.length = ~uint32_t{0};
        break;
      default:
        sge.address = nullptr;
        break;
    }
  }
  return places;
}

RemoteMemory Turn::PlaceAtPeer(bool written) {
  std::vector<OwnedPtr> regions =
      Filtered(*this, [&](const Owned& object) { return object.kind == Kind::kRegion && object.party != party; });
  Lease region = Choose(*this, std::move(regions));
  if (!region || Wrong()) {
    return {.address = dice.Below(1u << 30), .token = RemoteToken{static_cast<uint32_t>(dice.Below(1u << 31))}};
  }
  const uint32_t slot = written ? region->slots++ : 0;
  const uint64_t address =
      reinterpret_cast<uint64_t>(region->memory) + (written ? kFirstSlot + kSlot * (slot % (kFirstSlot / kSlot)) : 0);
  if (dice.Percent(20)) return {.address = address, .token = TokenOfPeer()};
  return {.address = address, .token = region.data<MemoryRegion>()->remote_token()};
}

RemoteToken Turn::TokenOfPeer() {
  const bool window = dice.Percent(70);
  const Kind kind = window ? Kind::kWindow : Kind::kRegion;
  const Lease lease =
      Choose(*this, Filtered(*this, [&](const Owned& object) { return object.kind == kind && object.party != party; }));
  if (!lease) return RemoteToken{static_cast<uint32_t>(dice.Below(1u << 31))};
  return window ? lease.data<MemoryWindow>()->remote_token() : lease.data<MemoryRegion>()->remote_token();
}

// --- Choices ---

void MakeCall(Turn& turn) {
  static const uint64_t kTotal = TotalWeight();
  // Most functions have an object that they can be called on; if not, another one is.
  constexpr int kTries = 20;
  for (int i = 0; i < kTries && turn.stage->MayCall(); ++i) {
    uint64_t luck = turn.dice.Below(kTotal);
    for (const Act& act : AllActs()) {
      if (luck < act.weight) {
        if (act.make(turn)) return;
        break;
      }
      luck -= act.weight;
    }
  }
}

bool MakeCall(Turn& turn, const char* function) {
  for (const Act& act : AllActs()) {
    if (std::string_view(act.function) == function) return act.make(turn);
  }
  return IndexOf(function) == kFunctionCount;
}

bool CloseSomething(Turn& turn) {
  std::vector<OwnedPtr> open = turn.stage->Objects();
  std::erase_if(open, [&](const OwnedPtr& object) { return object->close_called.load(); });
  if (open.empty()) return false;
  const OwnedPtr object = turn.dice.Of(open);
  const size_t party = std::exchange(turn.party, object->party);
  turn.Close(object);
  turn.party = party;
  return true;
}

void Interlude(const StagePtr& stage, uint64_t chance, const Place& place, size_t party) {
  Within(stage, chance, place, party, [&](Turn& turn) {
    if (!turn.dice.Percent(20)) return;
    const bool closes = stage->ending() || turn.dice.Percent(30);
    for (uint64_t left = 1 + turn.dice.Below(3); left > 0; --left) {
      if (closes) {
        CloseSomething(turn);
      } else {
        MakeCall(turn);
      }
    }
  });
}

void HandleRequest(const StagePtr& stage, uint64_t chance, const Place& place, const OwnedPtr& connector) {
  Within(stage, chance, place, connector->party, [&](Turn& turn) {
    if (stage->ending()) {
      turn.Close(connector);
    } else if (turn.dice.Percent(70)) {
      turn.valid = true;
      turn.focus = connector;
      MakeCall(turn, "Connector.Accept");
    }
  });
}

void HandleReply(const StagePtr& stage, uint64_t chance, const Place& place, const OwnedPtr& connector) {
  Within(stage, chance, place, connector->party, [&](Turn& turn) {
    if (stage->ending() || !turn.dice.Percent(70)) return;
    turn.valid = true;
    turn.focus = connector;
    MakeCall(turn, "Connector.CompleteConnect");
  });
}

}  // namespace rdmabroker::misuse
