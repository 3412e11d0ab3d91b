// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_USER_COSTS_H_
#define BROKER_CONTROL_USER_COSTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <variant>

#include "absl/time/time.h"
#include "broker/control/user_turns.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/socket_address.h"
#include "proto/rpc/frame_budget.h"

namespace rdmabroker {

// The owner of an account. A connection on this node is on its user's account. A connection over TCP is on its host's
// account until its first admitted call, and then on its SPIFFE id's.
using Payer = std::variant<uid_t, IpAddress, std::string>;

// Bounds the frames, the octets in memory and the loop's time that each user costs. All connections of a user share one
// account, and a user who connects again soon gets the same one. docs/limits.md lists the bounds. Loop thread only.
class UserCosts {
 public:
  struct Bounds {
    // Octets in memory of unserved requests and of unread replies. An honest client has a few 64 KiB messages; a user's
    // clients can be a thousand.
    size_t of_payer = size_t{64} << 20;
    // Half of what the pod of deploy/ may use.
    size_t in_all = size_t{256} << 20;
    // How long an account is kept after its last connection. Its budget of frames is full again by then.
    absl::Duration kept = absl::Seconds(10);
  };

 private:
  struct Account;
  using Accounts = std::map<Payer, Account>;

 public:
  // One connection's part of its user's account.
  class Entry {
   public:
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Valid until MoveTo or the entry's end.
    rpc::FrameBudget& frames() const;
    // Sets the number of octets that the connection holds. If the user exceeds its bound, `end` is soon called for the
    // user's connection that holds most. If all together exceed theirs, that of the user who holds most is ended.
    void Hold(size_t octets);
    // Same as the functions of UserTurns, for the user's line.
    [[nodiscard]] bool MayGoOn() const;
    void Charge(int64_t requests) const;
    void Owe(int64_t requests) const;
    void InTurn(std::function<void()> work) const;
    // Moves the connection to the account of `payer`.
    void MoveTo(const Payer& payer);

   private:
    friend class UserCosts;
    Entry(UserCosts& costs, const Payer& payer, std::function<void()> end);

    UserCosts& costs_;
    Accounts::iterator account_;
    const std::function<void()> end_;
    size_t held_ = 0;
  };

  // `waited` is passed to UserTurns.
  UserCosts(Loop& loop, const Bounds& bounds, std::function<void(uint64_t others)> waited);
  ~UserCosts();
  UserCosts(const UserCosts&) = delete;
  UserCosts& operator=(const UserCosts&) = delete;

  // Adds a connection. `end` must end it.
  std::unique_ptr<Entry> Enter(const Payer& payer, std::function<void()> end);
  // Octets that all connections hold.
  [[nodiscard]] size_t held() const { return held_; }

 private:
  struct Account {
    explicit Account(absl::Time now) : frames(rpc::FrameBudget::Rates(), now) {}

    rpc::FrameBudget frames;
    std::shared_ptr<UserTurns::Line> line = std::make_shared<UserTurns::Line>();
    std::unordered_set<Entry*> entries;
    size_t held = 0;
    TimerId forget = TimerId::kNone;  // Runs while the account has no entry.
  };

  void Join(Entry& entry, const Payer& payer);
  void Leave(Entry& entry);
  // The account that exceeds a bound; accounts_.end() if there is none.
  Accounts::iterator Excessive();
  void EndSome();

  Loop& loop_;
  const Bounds bounds_;
  UserTurns turns_;
  Accounts accounts_;
  size_t held_ = 0;
  bool ending_ = false;  // EndSome is posted.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_USER_COSTS_H_
