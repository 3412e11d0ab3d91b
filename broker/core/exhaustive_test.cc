// SPDX-License-Identifier: Apache-2.0

// Every sequence of events up to a depth (RDMA_BROKER_DEPTH, else 5), from three starts. In each state that a sequence
// leads to, the invariants hold; each event is seen by an observer that knows what clients and fabrics were promised,
// and followed by a shadow that knows of the records what the core says has changed; each is also handled by a core
// that was restored from the records just before, with the same effects; and each request that a client may repeat is
// repeated. States with equal futures (fingerprint.h) are gone on from once.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "broker/core/broker_core.h"
#include "broker/core/testing/alphabet.h"
#include "broker/core/testing/fingerprint.h"
#include "broker/core/testing/observer.h"
#include "broker/core/testing/shadow.h"
#include "broker/core/testing/text.h"
#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

constexpr size_t kGreatestDepth = 10;

size_t Depth() {
  const char* text = std::getenv("RDMA_BROKER_DEPTH");
  size_t depth = 5;
  if (text != nullptr && (!absl::SimpleAtoi(text, &depth) || depth == 0 || depth > kGreatestDepth)) {
    ADD_FAILURE() << "RDMA_BROKER_DEPTH: " << text << ": not between 1 and " << kGreatestDepth;
  }
  return depth;
}

// Small, so that each is reached within a few events; the times differ, so that each deadline comes in its turn.
Limits SmallLimits() {
  Limits limits;
  limits.sessions_per_uid = 2;
  limits.a_turn = {.closes = 1, .drops = 1, .ends = 1, .timeouts = 1};
  limits.adapters_per_session = 1;
  limits.listeners_per_session = 1;
  limits.shared_endpoints_per_session = 1;
  limits.reservations_per_session = 1;
  limits.connectors_per_session = 2;
  limits.answers_kept = 2;
  limits.events_kept = 4;
  limits.backlog = 1;
  limits.connect_timeout = absl::Seconds(2);
  limits.establish_timeout = absl::Seconds(3);
  limits.disconnect_timeout = absl::Seconds(5);
  limits.handoff_timeout = absl::Seconds(7);
  limits.session_grace = absl::Seconds(11);
  limits.first_ephemeral_port = 7000;
  limits.last_ephemeral_port = 7001;
  return limits;
}

struct World {
  BrokerCore core;
  Observer observer;
  Shadow shadow;

  explicit World(const Limits& limits) : core(limits), observer(limits), shadow(core) {}

  // INTERNAL, naming what was promised of the event that the core has just handled, and was not kept.
  absl::Status See(const Event& event, const Effects& effects) {
    absl::Status seen = observer.Observe(event, effects, core.records());
    absl::Status followed = shadow.Follow(core);
    return seen.ok() ? followed : seen;
  }
};

// How a sequence went on from its start: the places in the alphabet of each state.
using Path = std::array<uint8_t, kGreatestDepth>;

class Exploration {
 public:
  // Without merging, every sequence is gone through to its end, whatever state it leads to.
  enum class Merging : uint8_t { kMergeEqualStates, kNone };

  Exploration(const std::vector<Event>& start, size_t depth, Merging merging)
      : depth_(depth), merging_(merging), world_(SmallLimits()) {
    for (const Event& event : start) {
      trace_ += absl::StrCat(ToText(event), "\n");
      const Effects effects = world_.core.Handle(absl::UnixEpoch(), event);
      const absl::Status status = world_.See(event, effects);
      EXPECT_TRUE(status.ok()) << status << " after\n" << trace_;
    }
  }

  void Run() {
    Find(FingerprintOf(world_.core.records(), world_.observer), 0, Path{});
    std::vector<Path> level = std::move(next_level_);
    for (size_t length = 0; length < depth_ && !failed_; ++length) {
      next_level_.clear();
      stack_.clear();
      for (const Path& path : level) {
        Return(path, length);
        GoOn(path, length);
        if (failed_) return;
      }
      level = std::move(next_level_);
      level_sizes_.push_back(level.size());
    }
  }

  size_t states() const { return states_.size(); }

  bool TriedEveryKind() const {
    return tried_events_.size() == std::variant_size_v<Event::variant> &&
           tried_requests_.size() == std::variant_size_v<Request::variant> &&
           tried_reports_.size() == std::variant_size_v<FabricReport::variant>;
  }

  void Print() const {
    if (failed_) return;
    std::string levels;
    for (const size_t size : level_sizes_) absl::StrAppend(&levels, " ", size);
    std::printf("covered: depth %zu: %zu states (new to go on from:%s), %llu events handled, %llu sequences\n", depth_,
                states_.size(), levels.c_str(), static_cast<unsigned long long>(transitions_),
                static_cast<unsigned long long>(Sequences()));
  }

 private:
  struct Place {
    World world;
    std::vector<Move> moves;
    uint8_t taken = 0;  // The move to the next place of the stack.
  };

  uint64_t Serial(size_t length) const { return 100 + length; }

  // Puts the states along `path` onto the stack, keeping what it has in common with the one before.
  void Return(const Path& path, size_t length) {
    size_t common = 0;
    while (common < length && common + 1 < stack_.size() && stack_[common].taken == path[common]) ++common;
    if (stack_.empty()) {
      stack_.push_back({world_, AlphabetOf(world_.core, Serial(0)), 0});
    }
    stack_.resize(common + 1, stack_.front());
    while (stack_.size() <= length) {
      Place& last = stack_.back();
      last.taken = path[stack_.size() - 1];
      const Move& move = last.moves[last.taken];
      World world = last.world;
      const Effects effects = world.core.Handle(move.now, move.event);
      (void)world.See(move.event, effects);
      std::vector<Move> moves = AlphabetOf(world.core, Serial(stack_.size()));
      stack_.push_back({std::move(world), std::move(moves), 0});
    }
  }

  // Tries every event in the state on top of the stack.
  void GoOn(const Path& path, size_t length) {
    const Place& place = stack_.back();
    const BrokerCore& core = place.world.core;
    const uint32_t from = expanded_++;
    absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core.limits(), core.records());
    if (!restored.ok()) return Fail(restored.status().message(), length, nullptr, {});
    const bool keep_edges = length + 2 <= depth_;
    out_degrees_.push_back(static_cast<uint32_t>(place.moves.size()));
    if (keep_edges) edges_.emplace_back();
    ASSERT_LE(place.moves.size(), 255u);
    for (size_t i = 0; i < place.moves.size(); ++i) {
      const Move& move = place.moves[i];
      World world = place.world;
      BrokerCore again = *restored;
      const Effects effects = world.core.Handle(move.now, move.event);
      ++transitions_;
      Count(move.event);
      const absl::Status seen = world.See(move.event, effects);
      if (!seen.ok()) return Fail(seen.message(), length, &move, effects);
      if (again.Handle(move.now, move.event) != effects || again.records() != world.core.records()) {
        return Fail("a restored core does something else", length, &move, effects);
      }
      Path longer = path;
      longer[length] = static_cast<uint8_t>(i);
      const auto [to, fresh] = Find(FingerprintOf(world.core.records(), world.observer), length + 1, longer);
      if (keep_edges) edges_[from].push_back(to);
      if (fresh && !CheckState(world, length, move, effects)) return;
    }
  }

  bool CheckState(const World& world, size_t length, const Move& move, const Effects& effects) {
    absl::Status status = world.core.CheckInvariants();
    for (const auto& [id, session] : world.core.records().sessions) {
      if (status.ok() && !session.ended) status = CheckRepeats(world, session);
    }
    if (status.ok()) status = CheckRecovery(world);
    if (!status.ok()) Fail(status.message(), length, &move, effects);
    return status.ok();
  }

  // The process dies, and the next one, too, before anybody has answered it.
  absl::Status CheckRecovery(World world) {
    for (int death = 0; death < 2; ++death) {
      const std::map<ConnectorId, absl::Duration> left = TimeLeft(world.core.records());
      const Effects effects = world.core.Handle(world.core.records().now + absl::Seconds(1), Recover{});
      ++transitions_;
      Count(Recover{});
      if (absl::Status seen = world.See(Recover{}, effects); !seen.ok()) return seen;
      if (absl::Status kept = world.core.CheckInvariants(); !kept.ok()) return kept;
      for (const auto& [id, time] : TimeLeft(world.core.records())) {
        if (time == left.at(id)) continue;
        return absl::InternalError(absl::StrCat("connector ", id.value(), ": the time without a broker has counted"));
      }
    }
    return absl::OkStatus();
  }

  // Of the connectors that have a deadline.
  static std::map<ConnectorId, absl::Duration> TimeLeft(const Records& records) {
    std::map<ConnectorId, absl::Duration> left;
    for (const auto& [id, connector] : records.connectors) {
      if (connector.deadline != absl::InfiniteFuture()) left.emplace(id, connector.deadline - records.now);
    }
    return left;
  }

  // Every request whose answer is kept, asked again: the same answer, and nothing else happens.
  absl::Status CheckRepeats(const World& world, const SessionRecord& session) {
    for (const auto& [request, given] : world.observer.answers(session.id)) {
      BrokerCore core = world.core;
      Observer observer = world.observer;
      const Event repeat = ClientRequest{session.id, request, session.acknowledged, given.request};
      const Effects effects = core.Handle(core.records().now, repeat);
      ++transitions_;
      if (absl::Status seen = observer.Observe(repeat, effects, core.records()); !seen.ok()) return seen;
      if (core.records() != world.core.records()) {
        return absl::InternalError(absl::StrCat("request ", request.value(), ": its repeat changes something"));
      }
    }
    return absl::OkStatus();
  }

  // The number of the state, and whether it is new.
  std::pair<uint32_t, bool> Find(const Fingerprint& fingerprint, size_t length, const Path& path) {
    const auto [found, fresh] = states_.try_emplace(fingerprint, static_cast<uint32_t>(states_.size()));
    if ((fresh || merging_ == Merging::kNone) && length < depth_) next_level_.push_back(path);
    return {found->second, fresh};
  }

  void Count(const Event& event) {
    tried_events_.insert(event.index());
    if (const auto* request = std::get_if<ClientRequest>(&event)) tried_requests_.insert(request->request.index());
    if (const auto* report = std::get_if<FabricReport>(&event)) tried_reports_.insert(report->index());
  }

  void Fail(absl::string_view what, size_t length, const Move* last, const Effects& effects) {
    failed_ = true;
    std::string text = trace_;
    Instant now = absl::UnixEpoch();
    const auto say = [&](const Move& move) {
      if (move.now != now) absl::StrAppend(&text, "after ", absl::FormatDuration(move.now - now), ": ");
      now = move.now;
      absl::StrAppend(&text, ToText(move.event), "\n");
    };
    for (size_t i = 0; i < length; ++i) say(stack_[i].moves[stack_[i].taken]);
    if (last != nullptr) say(*last);
    for (const Effect& effect : effects) absl::StrAppend(&text, "  -> ", ToText(effect), "\n");
    ADD_FAILURE() << what << "; the shortest way there:\n" << text;
  }

  // The number of sequences of `depth_` events: walks through the graph of states.
  uint64_t Sequences() const {
    std::vector<uint64_t> walks(out_degrees_.begin(), out_degrees_.end());
    for (size_t length = 2; length <= depth_; ++length) {
      std::vector<uint64_t> longer(edges_.size(), 0);
      for (size_t from = 0; from < edges_.size(); ++from) {
        // Beyond the states whose walks of this length were followed to their end, the number is not used.
        for (const uint32_t to : edges_[from]) longer[from] += to < walks.size() ? walks[to] : 0;
      }
      walks = std::move(longer);
    }
    return walks[0];
  }

  const size_t depth_;
  const Merging merging_;
  World world_;
  std::string trace_;
  std::vector<Place> stack_;
  std::vector<Path> next_level_;
  absl::flat_hash_map<Fingerprint, uint32_t> states_;
  std::vector<uint32_t> out_degrees_;
  std::vector<std::vector<uint32_t>> edges_;
  std::vector<size_t> level_sizes_;
  uint32_t expanded_ = 0;
  uint64_t transitions_ = 0;
  std::set<size_t> tried_events_;
  std::set<size_t> tried_requests_;
  std::set<size_t> tried_reports_;
  bool failed_ = false;
};

Event Ask(uint64_t id, Request request) {
  return ClientRequest{SessionId(1), RequestId(id), EventNumber(), std::move(request)};
}

Event Seen(uint64_t number) { return AcknowledgeEvents{SessionId(1), EventNumber(number)}; }

const SocketAddress kLocal = {{.bytes = {10, 0, 0, 1}}, 7000};
const SocketAddress kPeer = {{.bytes = {10, 0, 0, 9}}, 7000};

std::vector<Event> EmptyCore() { return {FabricReport(DeviceChanged{AlphabetDevice(DeviceId(1), false)})}; }

std::vector<Event> OneAdapter() {
  std::vector<Event> events = EmptyCore();
  events.push_back(AlphabetSession(StreamId(1)));
  events.push_back(Ask(1, OpenAdapter{"nic0", kNdkVersion}));
  return events;
}

std::vector<Event> ListenerWithConnector() {
  std::vector<Event> events = OneAdapter();
  events.push_back(Ask(2, CreateListener{AdapterId(1)}));
  events.push_back(Ask(3, Listen{ListenerId(1), kLocal, {}}));
  events.push_back(FabricReport(FabricBound{EndpointId(1)}));
  FabricConnectRequested request;
  request.endpoint = EndpointId(1);
  request.connection = IncomingConnection(DeviceId(1), 1);
  request.local = kLocal;
  request.peer = {{.bytes = {10, 0, 0, 9}}, 5000};
  request.peer_limits = {3, 4};
  events.push_back(FabricReport(request));
  events.push_back(Seen(2));
  return events;
}

std::vector<Event> SharedEndpointWithConnector() {
  std::vector<Event> events = OneAdapter();
  events.push_back(Ask(2, CreateSharedEndpoint{AdapterId(1), kLocal, {}}));
  events.push_back(FabricReport(FabricBound{EndpointId(1)}));
  events.push_back(Ask(3, CreateConnector{AdapterId(1)}));
  events.push_back(Ask(4, ConnectWithSharedEndpoint{ConnectorId(1), {17}, SharedEndpointId(1), kPeer, {1, 2}, {}}));
  events.push_back(Seen(1));
  return events;
}

// An established connection of a device whose clients end connections, which its client has not fetched yet.
std::vector<Event> ConnectionToBeFetched() {
  std::vector<Event> events = ListenerWithConnector();
  Device device = AlphabetDevice(DeviceId(1), false);
  device.client_ends_connections = true;
  events.front() = FabricReport(DeviceChanged{device});
  events.push_back(Ask(4, Accept{ConnectorId(1), {17}, {1, 2}, {}}));
  events.push_back(FabricReport(FabricEstablished{IncomingConnection(DeviceId(1), 1), SecretOf<HandoffSecret>(9)}));
  events.push_back(Seen(3));
  return events;
}

// A Listen that is taking the caller's reservation over.
std::vector<Event> ReservationBeingTaken() {
  std::vector<Event> events = OneAdapter();
  events.push_back(Ask(2, ReservePort{AdapterId(1), {IpAddress(), 7000}}));
  events.push_back(FabricReport(FabricBound{EndpointId(1)}));
  events.push_back(Ask(3, CreateListener{AdapterId(1)}));
  events.push_back(Ask(4, Listen{ListenerId(1), {}, ReservationId(1)}));
  events.push_back(Seen(1));
  return events;
}

struct Start {
  const char* name;
  std::vector<Event> (*events)();
};

const Start kStarts[] = {
    {"AnEmptyCore", EmptyCore},
    {"AListenerWithADeliveredConnector", ListenerWithConnector},
    {"ASharedEndpointWithAConnector", SharedEndpointWithConnector},
    {"AConnectionToBeFetched", ConnectionToBeFetched},
    {"AReservationBeingTaken", ReservationBeingTaken},
};

class EverySequenceOfEvents : public testing::TestWithParam<Start> {};

TEST_P(EverySequenceOfEvents, KeepsThePromisesMadeToClientsAndFabrics) {
  Exploration exploration(GetParam().events(), Depth(), Exploration::Merging::kMergeEqualStates);
  exploration.Run();
  exploration.Print();
  EXPECT_TRUE(exploration.TriedEveryKind());
}

TEST_P(EverySequenceOfEvents, LeadsToTheSameStatesWhenEqualOnesAreNotMerged) {
  constexpr size_t kDepth = 3;
  Exploration merged(GetParam().events(), kDepth, Exploration::Merging::kMergeEqualStates);
  Exploration each(GetParam().events(), kDepth, Exploration::Merging::kNone);
  merged.Run();
  each.Run();
  EXPECT_EQ(merged.states(), each.states());
}

INSTANTIATE_TEST_SUITE_P(From, EverySequenceOfEvents, testing::ValuesIn(kStarts),
                         [](const auto& start) { return start.param.name; });

}  // namespace
}  // namespace rdmabroker
