// SPDX-License-Identifier: Apache-2.0

// Calls of queue pairs.

#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/testing/tcp_pair.h"
#include "tests/conformance/misuse/turn.h"

namespace rdmabroker::misuse {
namespace {

enum Serial { kInitiator, kReceives };

// Rather one that may be connected than one that is not.
Lease SomeQueuePair(Turn& turn) {
  if (!turn.Wrong(30)) {
    if (Lease used = turn.Open(Kind::kQueuePair, [](const Owned& one) { return one.used.load(); })) return used;
  }
  return turn.Some(Kind::kQueuePair);
}

// Posts, unless another thread is just posting there: that is the consumer's to prevent.
template <typename Post>
bool Posted(Turn& turn, const char* function, const Lease& queue_pair, Serial serial, const Post& post) {
  const std::unique_lock lock(queue_pair->serial[serial], std::try_to_lock);
  if (!lock.owns_lock()) return false;
  turn.Did(function, post(*queue_pair.data<QueuePair>()), NameOf(*queue_pair.owned()));
  return true;
}

bool Send(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const OpFlags flags = turn.Flags(OperationType::kSend);
  const std::vector<Sge> places = turn.Places(*queue_pair.owned(), false, flags);
  return Posted(turn, "QueuePair.Send", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Send(nullptr, places, flags); });
}

bool SendAndInvalidate(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const OpFlags flags = turn.Flags(OperationType::kSend);
  const std::vector<Sge> places = turn.Places(*queue_pair.owned(), false, flags);
  const RemoteToken token = turn.TokenOfPeer();
  return Posted(turn, "QueuePair.SendAndInvalidate", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.SendAndInvalidate(nullptr, places, flags, token); });
}

bool Receive(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const std::vector<Sge> places = turn.Places(*queue_pair.owned(), true);
  return Posted(turn, "QueuePair.Receive", queue_pair, kReceives,
                [&](QueuePair& qp) { return qp.Receive(nullptr, places); });
}

bool Read(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const OpFlags flags = turn.Flags(OperationType::kRead);
  const std::vector<Sge> places = turn.Places(*queue_pair.owned(), true, flags);
  const RemoteMemory source = turn.PlaceAtPeer(false);
  return Posted(turn, "QueuePair.Read", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Read(nullptr, places, source, flags); });
}

bool Write(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const OpFlags flags = turn.Flags(OperationType::kWrite);
  std::vector<Sge> places = turn.Places(*queue_pair.owned(), false, flags);
  // What goes to one slot.
  if (!places.empty()) places.resize(1);
  const RemoteMemory target = turn.PlaceAtPeer(true);
  return Posted(turn, "QueuePair.Write", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Write(nullptr, places, target, flags); });
}

// A region of the queue pair's adapter, unless by chance it is another's.
Lease RegionFor(Turn& turn, const Lease& queue_pair) {
  if (turn.Wrong(20)) return turn.Some(Kind::kRegion);
  return turn.Open(Kind::kRegion, [&](const Owned& region) { return region.instance == queue_pair->instance; });
}

bool Bind(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const Lease region = RegionFor(turn, queue_pair), window = turn.Some(Kind::kWindow);
  if (!region || !window) return false;
  const OpFlags flags = turn.Flags(OperationType::kBind);
  const size_t offset = turn.Wrong(10) ? kMemory : 0, length = turn.Wrong(10) ? 0 : kMemory;
  MemoryRegion* const of = turn.Wrong(3) ? nullptr : region.data<MemoryRegion>();
  MemoryWindow* const to = turn.Wrong(3) ? nullptr : window.data<MemoryWindow>();
  return Posted(turn, "QueuePair.Bind", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Bind(nullptr, of, to, region->memory + offset, length, flags); });
}

bool FastRegister(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const Lease region = turn.Wrong() ? turn.Some(Kind::kRegion) : turn.Open(Kind::kRegion, [&](const Owned& one) {
    return one.instance == queue_pair->instance && one.fast_register;
  });
  if (!region) return false;
  const OpFlags flags = turn.Flags(OperationType::kFastRegister);
  std::vector<void*> pages = {region->memory, region->memory + kFastRegisterPageSize};
  if (turn.Wrong(10)) pages.resize(turn.dice.Below(2));
  const size_t first_byte = turn.Wrong(10) ? turn.dice.Below(2 * kFastRegisterPageSize) : 0;
  const size_t length = turn.Wrong(10) ? 3 * kMemory : kMemory;
  MemoryRegion* const of = turn.Wrong(3) ? nullptr : region.data<MemoryRegion>();
  return Posted(turn, "QueuePair.FastRegister", queue_pair, kInitiator, [&](QueuePair& qp) {
    return qp.FastRegister(nullptr, of, pages, first_byte, length, reinterpret_cast<uint64_t>(region->memory), flags);
  });
}

bool InvalidateRegion(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const Lease region = turn.Wrong() ? turn.Some(Kind::kRegion) : turn.Open(Kind::kRegion, [&](const Owned& one) {
    return one.instance == queue_pair->instance && one.fast_register;
  });
  if (!region) return false;
  const OpFlags flags = turn.Flags(OperationType::kInvalidate);
  MemoryRegion* const of = turn.Wrong(3) ? nullptr : region.data<MemoryRegion>();
  return Posted(turn, "QueuePair.Invalidate(MemoryRegion)", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Invalidate(nullptr, of, flags); });
}

bool InvalidateWindow(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn), window = turn.Some(Kind::kWindow);
  if (!queue_pair || !window) return false;
  const OpFlags flags = turn.Flags(OperationType::kInvalidate);
  MemoryWindow* const of = turn.Wrong(3) ? nullptr : window.data<MemoryWindow>();
  return Posted(turn, "QueuePair.Invalidate(MemoryWindow)", queue_pair, kInitiator,
                [&](QueuePair& qp) { return qp.Invalidate(nullptr, of, flags); });
}

bool Flush(Turn& turn) {
  if (turn.dice.Percent(60)) return false;
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  queue_pair.data<QueuePair>()->Flush();
  turn.Did("QueuePair.Flush", NameOf(*queue_pair.owned()));
  return true;
}

bool WatchAlone(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  queue_pair.data<QueuePair>()->WatchAlone();
  turn.Did("QueuePair.WatchAlone", NameOf(*queue_pair.owned()));
  return true;
}

ConnectionEndCallback OnEnd(Turn& turn, const OwnedPtr& queue_pair) {
  if (turn.Wrong(10)) return {};
  const auto ends = std::make_shared<std::atomic<int>>(0);
  return [stage = turn.stage, weak = std::weak_ptr<Owned>(queue_pair), ends, party = turn.party,
          chance = turn.dice.Below(1u << 30)](const ConnectionEnd&) {
    const Place place = {.where = Where::kOther, .party = party};
    const Callback callback(stage, weak.lock(), "the end of an attached connection", place);
    if (++*ends > 1) stage->Fail("an attached connection ends twice");
    Interlude(stage, chance, place, party);
  };
}

// Queue pairs that the program connects without the broker.
bool Attach(Turn& turn) {
  const Lease one = turn.Some(Kind::kQueuePair), other = turn.Some(Kind::kQueuePair);
  if (!one || !other) return false;
  if (turn.Wrong(40)) {
    Attachment senseless = {.state = std::string(turn.dice.Below(200), static_cast<char>(turn.dice.Below(256)))};
    if (turn.dice.Percent(50)) senseless.socket = ConnectTcpPair().active;
    turn.Did("QueuePair.Attach", one.data<QueuePair>()->Attach(std::move(senseless), OnEnd(turn, one.owned())));
    return true;
  }
  one->used = true;
  // As where the kernel's driver has connected it.
  if (turn.dice.Percent(15)) {
    turn.Did("QueuePair.Attach", one.data<QueuePair>()->Attach({}, OnEnd(turn, one.owned())), NameOf(*one.owned()));
    return true;
  }
  other->used = true;
  TcpPair pair = ConnectTcpPair();
  iwarp::ConnectionState state;
  state.ready_to_receive = iwarp::ReadyToReceive::kWrite;
  state.crc = true;
  state.inbound_read_limit = state.outbound_read_limit = 4;
  turn.Did(
      "QueuePair.Attach",
      one.data<QueuePair>()->Attach({std::move(pair.active), EncodeConnectionState(state)}, OnEnd(turn, one.owned())),
      NameOf(*one.owned()));
  state.role = iwarp::Role::kResponder;
  turn.Did("QueuePair.Attach",
           other.data<QueuePair>()->Attach({std::move(pair.passive), EncodeConnectionState(state)},
                                           OnEnd(turn, other.owned())),
           NameOf(*other.owned()));
  return true;
}

bool Disconnect(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  const TicketPtr ticket = turn.Begin("QueuePair.Disconnect", queue_pair.owned());
  // The peer may not answer.
  const std::chrono::milliseconds timeout(turn.Wrong() ? 0 : turn.dice.Below(50));
  turn.End("QueuePair.Disconnect", ticket,
           queue_pair.data<QueuePair>()->Disconnect(
               timeout, turn.Wrong() ? RequestCompletion() : turn.StatusCompletion(ticket, "QueuePair.Disconnect")));
  return true;
}

bool AskQueuePair(Turn& turn) {
  const Lease queue_pair = SomeQueuePair(turn);
  if (!queue_pair) return false;
  (void)queue_pair.data<QueuePair>()->number();
  turn.Did("QueuePair.number");
  if (queue_pair.data<QueuePair>()->adapter() == nullptr) turn.stage->Fail("a queue pair has no adapter");
  turn.Did("QueuePair.adapter");
  return true;
}

}  // namespace

std::vector<Act> PostActs() {
  return {{"QueuePair.Send", 12, Send},
          {"QueuePair.SendAndInvalidate", 4, SendAndInvalidate},
          {"QueuePair.Receive", 12, Receive},
          {"QueuePair.Read", 8, Read},
          {"QueuePair.Write", 8, Write},
          {"QueuePair.Bind", 8, Bind},
          {"QueuePair.FastRegister", 6, FastRegister},
          {"QueuePair.Invalidate(MemoryRegion)", 4, InvalidateRegion},
          {"QueuePair.Invalidate(MemoryWindow)", 4, InvalidateWindow},
          {"QueuePair.Flush", 3, Flush},
          {"QueuePair.WatchAlone", 1, WatchAlone},
          {"QueuePair.Attach", 3, Attach},
          {"QueuePair.Disconnect", 3, Disconnect},
          {"QueuePair.number", 1, AskQueuePair}};
}

}  // namespace rdmabroker::misuse
