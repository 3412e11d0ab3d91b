// SPDX-License-Identifier: Apache-2.0

// Calls of the data side's objects but for queue pairs.

#include <array>
#include <memory>
#include <utility>

#include "tests/conformance/misuse/turn.h"

namespace rdmabroker::misuse {
namespace {

// A number that fits, or one that does not.
uint32_t Number(Turn& turn, uint32_t least, uint32_t range) {
  if (!turn.Wrong(8)) return least + static_cast<uint32_t>(turn.dice.Below(range));
  return turn.dice.Percent(50) ? 0 : ~uint32_t{0} - static_cast<uint32_t>(turn.dice.Below(2));
}

Lease SomeDataAdapter(Turn& turn) {
  const Lease adapter = turn.Some(Kind::kAdapter);
  return adapter ? turn.stage->BorrowData(adapter.owned()) : Lease();
}

template <typename Object>
OwnedPtr NewOwned(Turn& turn, const char* function, const Lease& parent, Kind kind, const Created<Object>& made,
                  OwnedPtr owned = std::make_shared<Owned>()) {
  if ((made.status == NdkStatus::kSuccess) != (made.object != nullptr)) {
    turn.stage->Fail(std::string(function) + "'s object does not go with its status");
  }
  if (made.object != nullptr) {
    owned->kind = kind;
    owned->party = parent->party;
    owned->instance = parent->instance;
    owned->data = made.object;
    turn.stage->Add(owned);
    // Uses it even when its close is pending.
    if (turn.dice.Percent(30)) turn.stage->Keep(owned);
  }
  turn.Did(function, made.status, NameOf(*parent.owned()) + (made.object == nullptr ? "" : ": " + NameOf(*owned)));
  return owned;
}

bool AskDataAdapter(Turn& turn) {
  const Lease adapter = SomeDataAdapter(turn);
  if (!adapter) return false;
  if (adapter.data<Adapter>()->info().max_cq_depth == 0) turn.stage->Fail("an adapter has no limits");
  turn.Did("DataAdapter.info");
  return true;
}

bool CreateDomain(Turn& turn) {
  const Lease adapter = SomeDataAdapter(turn);
  if (!adapter) return false;
  NewOwned(turn, "DataAdapter.CreateProtectionDomain", adapter, Kind::kDomain,
           adapter.data<Adapter>()->CreateProtectionDomain());
  return true;
}

// What a notification does: `owned` is known once the queue has been created, before anything can notify.
std::function<void(NdkStatus)> Notification(Turn& turn, const OwnedPtr& owned, const char* what) {
  if (turn.Wrong(10)) return {};
  return [stage = turn.stage, weak = std::weak_ptr<Owned>(owned), what, party = turn.party,
          dice = std::make_shared<Dice>(turn.dice.Below(1u << 30))](NdkStatus) {
    const OwnedPtr queue = weak.lock();
    const Place place = {.where = Where::kOther, .party = party};
    const Callback callback(stage, queue, what, place);
    if (queue != nullptr && queue->running > 1) stage->Fail("notifications of one queue overlap");
    Interlude(stage, dice->Below(1u << 30), place, party);
  };
}

bool CreateCompletionQueue(Turn& turn) {
  const Lease adapter = SomeDataAdapter(turn);
  if (!adapter) return false;
  // A short one overruns.
  const uint32_t depth = turn.Wrong(15) ? Number(turn, 1, 3) : Number(turn, 64, 64);
  auto owned = std::make_shared<Owned>();
  const auto made =
      adapter.data<Adapter>()->CreateCompletionQueue(depth, Notification(turn, owned, "a queue's notification"));
  NewOwned(turn, "DataAdapter.CreateCompletionQueue", adapter, Kind::kCompletionQueue, made, owned);
  return true;
}

bool CreateRegion(Turn& turn) {
  const Lease domain = turn.Some(Kind::kDomain);
  if (!domain) return false;
  // The first one is such as every request can name.
  const bool fast = turn.dice.Percent(40) && turn.Open(Kind::kRegion);
  auto owned = std::make_shared<Owned>();
  owned->fast_register = fast;
  NewOwned(turn, "ProtectionDomain.CreateMemoryRegion", domain, Kind::kRegion,
           domain.data<ProtectionDomain>()->CreateMemoryRegion(fast), owned);
  return true;
}

bool CreateWindow(Turn& turn) {
  const Lease domain = turn.Some(Kind::kDomain);
  if (!domain) return false;
  NewOwned(turn, "ProtectionDomain.CreateMemoryWindow", domain, Kind::kWindow,
           domain.data<ProtectionDomain>()->CreateMemoryWindow());
  return true;
}

bool CreateSharedReceiveQueue(Turn& turn) {
  const Lease domain = turn.Some(Kind::kDomain);
  if (!domain) return false;
  auto owned = std::make_shared<Owned>();
  const auto made = domain.data<ProtectionDomain>()->CreateSharedReceiveQueue(
      {.depth = Number(turn, 4, 28),
       .max_receive_request_sge = Number(turn, 1, 2),
       .notify_threshold = static_cast<uint32_t>(turn.dice.Below(4)),
       .notification = Notification(turn, owned, "a shared receive queue's notification")});
  NewOwned(turn, "ProtectionDomain.CreateSharedReceiveQueue", domain, Kind::kSharedReceiveQueue, made, owned);
  return true;
}

bool CreateQueuePair(Turn& turn) {
  const Lease domain = turn.Some(Kind::kDomain);
  if (!domain) return false;
  const auto queue = [&] {
    if (turn.Wrong(5)) return turn.Some(Kind::kCompletionQueue);
    return turn.Open(Kind::kCompletionQueue, [&](const Owned& cq) { return cq.instance == domain->instance; });
  };
  const Lease receives = queue(), requests = turn.dice.Percent(70) ? Lease() : queue();
  const Lease srq = !turn.valid && turn.dice.Percent(25) ? turn.Some(Kind::kSharedReceiveQueue) : Lease();
  if (!receives && !turn.Wrong(10)) return false;
  QueuePairAttributes attributes = {.receive_cq = receives ? receives.data<CompletionQueue>() : nullptr,
                                    .srq = srq ? srq.data<SharedReceiveQueue>() : nullptr,
                                    .context = domain.owned().get(),
                                    .receive_queue_depth = Number(turn, 4, 12),
                                    .initiator_queue_depth = Number(turn, 4, 12),
                                    .max_receive_request_sge = Number(turn, 2, 2),
                                    .max_initiator_request_sge = Number(turn, 2, 2),
                                    .inline_data_size = Number(turn, 0, 64)};
  attributes.initiator_cq = requests ? requests.data<CompletionQueue>() : attributes.receive_cq;
  NewOwned(turn, "ProtectionDomain.CreateQueuePair", domain, Kind::kQueuePair,
           domain.data<ProtectionDomain>()->CreateQueuePair(attributes));
  return true;
}

bool TakeResults(Turn& turn) {
  const Lease queue = turn.Some(Kind::kCompletionQueue);
  if (!queue) return false;
  const size_t most = turn.dice.Below(8);
  if (turn.dice.Percent(50)) {
    std::array<Result, 8> results;
    queue.data<CompletionQueue>()->GetResults(std::span(results).first(most));
    turn.Did("CompletionQueue.GetResults");
  } else {
    std::array<ResultEx, 8> results;
    queue.data<CompletionQueue>()->GetResultsEx(std::span(results).first(most));
    turn.Did("CompletionQueue.GetResultsEx");
  }
  return true;
}

bool Arm(Turn& turn) {
  const Lease queue = turn.Some(Kind::kCompletionQueue);
  if (!queue) return false;
  queue.data<CompletionQueue>()->Arm(static_cast<CqNotify>(turn.dice.Below(3)));
  turn.Did("CompletionQueue.Arm", NameOf(*queue.owned()));
  return true;
}

bool Resize(Turn& turn) {
  const Lease queue = turn.Some(Kind::kCompletionQueue);
  if (!queue) return false;
  turn.Did("CompletionQueue.Resize", queue.data<CompletionQueue>()->Resize(Number(turn, 1, 100)),
           NameOf(*queue.owned()));
  return true;
}

bool Moderate(Turn& turn) {
  const Lease queue = turn.Some(Kind::kCompletionQueue);
  if (!queue) return false;
  turn.Did("CompletionQueue.ControlInterruptModeration",
           queue.data<CompletionQueue>()->ControlInterruptModeration(Number(turn, 0, 10), Number(turn, 0, 10)));
  return true;
}

bool ReceiveShared(Turn& turn) {
  const Lease queue = turn.Some(Kind::kSharedReceiveQueue);
  if (!queue) return false;
  const std::vector<Sge> places = turn.Places(*queue.owned(), true);
  const std::unique_lock lock(queue->serial[1], std::try_to_lock);
  if (!lock.owns_lock()) return false;
  turn.Did("SharedReceiveQueue.Receive", queue.data<SharedReceiveQueue>()->Receive(nullptr, places));
  return true;
}

bool Modify(Turn& turn) {
  const Lease queue = turn.Some(Kind::kSharedReceiveQueue);
  if (!queue) return false;
  // Not every device changes the depth.
  const uint32_t depth = turn.dice.Percent(50) ? 0 : Number(turn, 1, 31);
  turn.Did("SharedReceiveQueue.Modify",
           queue.data<SharedReceiveQueue>()->Modify(depth, static_cast<uint32_t>(turn.dice.Below(4))));
  return true;
}

bool Register(Turn& turn) {
  const Lease region = turn.Wrong(20) ? turn.Some(Kind::kRegion)
                                      : turn.Open(Kind::kRegion, [](const Owned& one) { return !one.fast_register; });
  if (!region) return false;
  MrFlags flags = kMrAllowRemoteRead | kMrAllowRemoteWrite;
  if (turn.Wrong(25)) flags = static_cast<MrFlags>(turn.dice.Below(32));
  void* const address = turn.Wrong(5) ? nullptr : region->memory;
  const size_t length = turn.Wrong(10) ? (turn.dice.Percent(50) ? 0 : ~size_t{0}) : kMemory;
  turn.Did("MemoryRegion.Register", region.data<MemoryRegion>()->Register(address, length, flags),
           NameOf(*region.owned()));
  return true;
}

bool Deregister(Turn& turn) {
  const Lease region = turn.Some(Kind::kRegion);
  if (!region || turn.dice.Percent(50)) return false;
  turn.Did("MemoryRegion.Deregister", region.data<MemoryRegion>()->Deregister(), NameOf(*region.owned()));
  return true;
}

bool InitializeFastRegister(Turn& turn) {
  const Lease region = turn.Wrong(40) ? turn.Some(Kind::kRegion)
                                      : turn.Open(Kind::kRegion, [](const Owned& one) { return one.fast_register; });
  if (!region) return false;
  turn.Did("MemoryRegion.InitializeFastRegister",
           region.data<MemoryRegion>()->InitializeFastRegister(Number(turn, 1, 4), turn.dice.Percent(60)),
           NameOf(*region.owned()));
  return true;
}

bool AskRegion(Turn& turn) {
  const Lease region = turn.Some(Kind::kRegion);
  if (!region) return false;
  auto* const object = region.data<MemoryRegion>();
  (void)object->local_token();
  turn.Did("MemoryRegion.local_token");
  (void)object->remote_token();
  turn.Did("MemoryRegion.remote_token");
  return true;
}

bool AskWindow(Turn& turn) {
  const Lease window = turn.Some(Kind::kWindow);
  if (!window) return false;
  (void)window.data<MemoryWindow>()->remote_token();
  turn.Did("MemoryWindow.remote_token");
  return true;
}

bool CloseData(Turn& turn) {
  if (turn.dice.Percent(60)) return false;
  const Lease object = turn.Any(false);
  return object && turn.Close(object.owned());
}

bool KeepObject(Turn& turn) {
  const Lease object = turn.Any(false);
  if (!object || !turn.stage->Keep(object.owned())) return false;
  turn.Did("DataObject.AddReference", NameOf(*object.owned()));
  return true;
}

bool LetGo(Turn& turn) {
  if (turn.dice.Percent(70)) return false;
  const Lease object = turn.Any(false);
  if (!object || !turn.stage->LetGo(object.owned())) return false;
  turn.Did("DataObject.ReleaseReference", NameOf(*object.owned()));
  return true;
}

}  // namespace

std::vector<Act> DataActs() {
  return {{"DataAdapter.info", 1, AskDataAdapter},
          {"DataAdapter.CreateProtectionDomain", 4, CreateDomain},
          {"DataAdapter.CreateCompletionQueue", 4, CreateCompletionQueue},
          {"ProtectionDomain.CreateMemoryRegion", 5, CreateRegion},
          {"ProtectionDomain.CreateMemoryWindow", 4, CreateWindow},
          {"ProtectionDomain.CreateSharedReceiveQueue", 3, CreateSharedReceiveQueue},
          {"ProtectionDomain.CreateQueuePair", 8, CreateQueuePair},
          {"CompletionQueue.GetResults", 6, TakeResults},
          {"CompletionQueue.Arm", 5, Arm},
          {"CompletionQueue.Resize", 2, Resize},
          {"CompletionQueue.ControlInterruptModeration", 1, Moderate},
          {"SharedReceiveQueue.Receive", 3, ReceiveShared},
          {"SharedReceiveQueue.Modify", 2, Modify},
          {"MemoryRegion.Register", 6, Register},
          {"MemoryRegion.Deregister", 3, Deregister},
          {"MemoryRegion.InitializeFastRegister", 3, InitializeFastRegister},
          {"MemoryRegion.local_token", 1, AskRegion},
          {"MemoryWindow.remote_token", 1, AskWindow},
          {"DataObject.Close", 10, CloseData},
          {"DataObject.AddReference", 2, KeepObject},
          {"DataObject.ReleaseReference", 2, LetGo}};
}

}  // namespace rdmabroker::misuse
