// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_BROKER_CORE_H_
#define BROKER_CORE_BROKER_CORE_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "broker/core/changes.h"
#include "broker/core/index.h"
#include "broker/core/limits.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/core/tally.h"

namespace rdmabroker {

struct Holdings {
  uint32_t sessions = 0;  // Those that have ended and whose objects are still closing included.
  uint32_t listeners = 0;
  uint32_t connectors = 0;  // But those that a listener has delivered and nobody has decided on.

  bool operator==(const Holdings&) const = default;
};

// Whether the request only gives back or tells of an end: whoever has too much of something may still make it.
[[nodiscard]] bool OnlyEnds(const Request& request);

// What is said of a device that is not there, and of one that its client may not know to be there.
[[nodiscard]] Outcome UnknownDevice(const std::string& name);

// Decides everything that the broker decides: who owns which object and address, which step of a handshake is allowed,
// who is refused and when to give up. Pure: no I/O, threads, clock, randomness or logs; the same events in the same
// order give the same effects. Not thread-safe: one owner.
class BrokerCore {
 public:
  // `lineage` and `id_key`: as Records and Counters have them.
  explicit BrokerCore(const Limits& limits, uint64_t lineage = 0, uint64_t id_key = 0);
  BrokerCore(const BrokerCore&);
  BrokerCore(BrokerCore&&) noexcept;
  BrokerCore& operator=(const BrokerCore&);
  BrokerCore& operator=(BrokerCore&&) noexcept;
  ~BrokerCore();

  // `now` never goes back; the process ends if it does.
  [[nodiscard]] Effects Handle(Instant now, const Event& event);
  // Handles one of several events that share a budget, from which Handle subtracts what this event uses. NextDeadline
  // is due at once for what has to be left.
  [[nodiscard]] Effects Handle(Instant now, const Event& event, TurnBudget* left);

  // Whether the request would be carried out: it is no repeat, and nothing of its session or number is in its way. Who
  // asks what it may cost asks this first.
  [[nodiscard]] bool IsNew(const ClientRequest& request) const;

  // When DeadlineReached is to be handled next; absl::InfiniteFuture() for never.
  [[nodiscard]] Instant NextDeadline() const;

  // Everything that the core knows; for inspection, and with Restore for a core that goes on where this one is.
  [[nodiscard]] const Records& records() const { return records_; }
  // INVALID_ARGUMENT, naming the first rule that `records` break. Who has more than `limits` allow, which may be lower
  // than those under which the records were made, keeps it.
  [[nodiscard]] static absl::StatusOr<BrokerCore> Restore(const Limits& limits, const Records& records);

  // What has changed in the records since the reader's last call. The first call gives all of it, and begins the
  // noting: who has called once calls again after every few events, until StopTaking.
  [[nodiscard]] Changes TakeChanges(ChangeReader reader = ChangeReader::kStore);
  void StopTaking(ChangeReader reader);

  // For whoever shows how the core does. Both hold for the time after the last event.
  [[nodiscard]] const Index& index() const { return index_; }
  [[nodiscard]] const Tally& tally() const { return tally_; }

  // The rules that hold after every event: INTERNAL, naming the first that does not. For tests; walks over everything.
  [[nodiscard]] absl::Status CheckInvariants() const;

  // What all sessions of one user have.
  [[nodiscard]] Holdings HoldingsOf(uint32_t uid) const;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  // From now on these hold: who has more keeps it and gets no more, and what waits already has the time that it was
  // given. Clients repeat requests by the answers_kept that they were told of: what a session has of it stays.
  void SetLimits(const Limits& limits) { limits_ = limits; }

 private:
  Limits limits_;
  Records records_;
  Index index_;
  Tally tally_;
  // By reader.
  struct Taking {
    bool begun = false;
    Counters counters;  // As they were at the last TakeChanges.
  };
  std::array<Taking, 2> taking_;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_BROKER_CORE_H_
