// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_USER_TURNS_H_
#define BROKER_CONTROL_USER_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "broker/runtime/loop.h"

namespace rdmabroker {

// Shares the turns of the loop among users. Work for a user's clients waits in the user's line. Each turn of the loop
// serves the lines one after another, each until the user has had its share of the turn, and at most the work that
// waited when its service began. A share is counted in requests. What exceeds it is paid for in later turns.
//
// Work is at most kShare requests. So a request of a user without debt waits for less than 2 * kShare requests of each
// other user in the turn in which it arrives, and for as many in later ones. Loop thread only.
class UserTurns {
 public:
  // A user's requests in a turn: they take about a third of a millisecond, or two where each begins a connection.
  static constexpr int64_t kShare = 64;
  // All users' requests in a turn: with two milliseconds for a share the loop is held up for less than ten. The lines
  // that were not served then are the first of the next turn.
  static constexpr uint64_t kInATurn = uint64_t{4} * kShare;

  // One user's work.
  class Line {
   public:
    // Returns false if the user has used up its share of the turn.
    [[nodiscard]] bool MayGoOn() const { return left_ > 0; }

   private:
    friend class UserTurns;
    struct Work {
      std::function<void()> run;
      // Requests of other users that had been served when the work was added; nothing if its own user delays it.
      std::optional<uint64_t> others;
    };

    std::deque<Work> work_;
    int64_t left_ = kShare;
    uint64_t charged_ = 0;
    bool in_rotation_ = false;
  };

  // `waited` is called for work that was added while its line had none and no debt, with the number of other users'
  // requests that were served while it waited. May be null.
  UserTurns(Loop& loop, std::function<void(uint64_t others)> waited) : loop_(loop), waited_(std::move(waited)) {}
  UserTurns(const UserTurns&) = delete;
  UserTurns& operator=(const UserTurns&) = delete;

  // Runs `work` in this turn of the loop, or in a later one if this turn's lines were served already. Work of a line
  // runs in its order.
  void Add(const std::shared_ptr<Line>& line, std::function<void()> work);
  // Counts requests of the user that are served. At most kShare at a time.
  void Charge(Line& line, int64_t requests);
  // Reduces the user's share by this many requests, for other work that has taken as long.
  static void Owe(Line& line, int64_t requests) { line.left_ -= requests; }

 private:
  void ServeSoon();
  void Serve();
  void ServeLine(Line& line);

  Loop& loop_;
  const std::function<void(uint64_t others)> waited_;
  std::deque<std::shared_ptr<Line>> rotation_;  // Lines with work.
  uint64_t charged_ = 0;                        // The sum of all lines.
  uint64_t served_in_ = 0;                      // The last turn of the loop that has served lines.
  bool due_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_USER_TURNS_H_
