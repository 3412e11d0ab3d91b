// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_FABRIC_LIFE_H_
#define BROKER_FABRIC_IWARP_TESTING_FABRIC_LIFE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "broker/fabric/fabric_records.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/iwarp/testing/raw_peer.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {

inline constexpr DeviceId kDevice(1);

// One fabric of one process, whose peers are raw sockets. The test is the core.
class FabricLife {
 public:
  // Far beyond what any of this takes: only what never comes waits so long.
  static constexpr absl::Duration kPatience = absl::Seconds(20);
  // What still comes on one machine comes within this; too short, a test might pass that should fail. Shorter than the
  // pause after which an attempt looks again for its addresses (IwarpOptions::time_wait_poll), or that would always
  // come.
  static constexpr absl::Duration kQuiet = absl::Milliseconds(30);

  // `supervisor` outlives it; without one, nothing outlives it. `records` and `last_id` are those of the life before.
  explicit FabricLife(IpFamily family, const IwarpOptions& options = {}, Supervisor* supervisor = nullptr,
                      FabricRecords records = {}, uint64_t last_id = 0)
      : family_(family),
        keep_(supervisor == nullptr ? nobody_ : *supervisor),
        records_(std::move(records)),
        last_id_(last_id) {
    auto opened = IwarpFabric::Open(kDevice, options, loop_, handoffs_, keep_, records_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
    device_ = Await<DeviceChanged>().device;
  }
  FabricLife(const FabricLife&) = delete;
  FabricLife& operator=(const FabricLife&) = delete;

  void Perform(const FabricRequest& request) { fabric_->Perform(request); }
  void MakeWay() { fabric_->MakeWay(); }
  bool HasHandshakes() const { return fabric_->HasHandshakes(); }
  const std::vector<FabricReport>& reports() const { return reports_; }
  HandoffTable& handoffs() { return handoffs_; }
  DescriptorKeep& keep() { return keep_; }
  FabricRecords& records() { return records_; }
  uint64_t last_id() const { return last_id_; }
  uint64_t NextId() { return ++last_id_; }

  // Runs the loop until `done`.
  void RunUntil(const std::predicate auto& done, const char* what) {
    const absl::Time end = Loop::Now() + kPatience;
    while (!done()) {
      if (Loop::Now() >= end) {
        ADD_FAILURE() << "in vain waited for: " << what;
        return;
      }
      // A raw peer's bytes come without a callback of the loop.
      loop_.RunTurn(Loop::Now() + absl::Milliseconds(1));
    }
  }
  void Settle() {
    while (loop_.RunTurn(Loop::Now() + kQuiet)) continue;
  }

  // Expects that data which stays in a socket does not wake the loop again and again.
  void ExpectSleep() {
    constexpr uint64_t kTurns = 5;  // Some may be for a timer.
    const uint64_t before = loop_.turn();
    for (uint64_t i = 0; i < kTurns; ++i) loop_.RunTurn(Loop::Now() + kQuiet);
    EXPECT_LT(loop_.turn() - before, kTurns);
  }

  template <typename Report>
  Report Await() {
    Report taken;
    RunUntil([&] { return Take(&taken); }, typeid(Report).name());
    return taken;
  }
  // The first report of the kind; false if none has come.
  template <typename Report>
  bool Take(Report* taken) {
    for (auto report = reports_.begin(); report != reports_.end(); ++report) {
      const auto* typed = std::get_if<Report>(&*report);
      if (typed == nullptr) continue;
      *taken = *typed;
      reports_.erase(report);
      return true;
    }
    return false;
  }

  void AwaitBytes(RawPeer& peer, size_t count) {
    RunUntil([&] { return peer.Poll(), peer.received().size() >= count || peer.end() != RawPeer::End::kNone; },
             "bytes from the fabric");
    EXPECT_EQ(peer.received().size(), count);
  }
  RawPeer::End AwaitEnd(RawPeer& peer) {
    RunUntil([&] { return peer.Poll(), peer.end() != RawPeer::End::kNone; }, "the end of the stream");
    return peer.end();
  }

  // An endpoint on a port that is free; several tests run side by side, so each begins elsewhere.
  struct Bound {
    EndpointId id;
    SocketAddress address;
  };
  Bound Bind(EndpointUse use) {
    static uint32_t next = static_cast<uint32_t>(::getpid()) * 37;
    for (int tries = 0; tries < 1000; ++tries) {
      const Bound bound = {EndpointId(++last_id_),
                           {LoopbackOf(family_), static_cast<uint16_t>(49152 + next++ % 16384)}};
      fabric_->Perform(FabricBind{kDevice, bound.id, use, {bound.address.ip}, bound.address.port});
      FabricBound done;
      if (Take(&done)) return bound;
      EXPECT_EQ(Await<FabricBindFailed>().status, NdkStatus::kSharingViolation);
    }
    ADD_FAILURE() << "no port is free";
    return {};
  }
  void Release(ConnectionId connection) {
    fabric_->Perform(FabricRelease{kDevice, connection});
    EXPECT_EQ(Await<FabricReleased>().connection, connection);
  }

  // The client's part of the hand-over.
  iwarp::ConnectionState StateOf(ConnectionId connection) {
    const Handoff* handoff = handoffs_.Find(connection);
    if (handoff == nullptr) {
      ADD_FAILURE() << "nothing to hand over";
      return {};
    }
    const auto state = iwarp::DecodeConnectionState(handoff->state);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.value_or(iwarp::ConnectionState{});
  }

 protected:
  const IpFamily family_;
  Loop loop_;
  HandoffTable handoffs_;
  FakeSupervisor nobody_{false};
  DescriptorKeep keep_;
  FabricRecords records_;
  std::unique_ptr<IwarpFabric> fabric_;
  std::vector<FabricReport> reports_;
  Device device_;
  uint64_t last_id_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_FABRIC_LIFE_H_
