// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ACCEPTOR_H_
#define BROKER_CONTROL_ACCEPTOR_H_

#include <functional>

#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Accepts connections to a listening socket and gives them to its owner. The thread of its loop only.
class Acceptor {
 public:
  // The most connections that are accepted in a turn of the loop. Each takes some ten microseconds with what its owner
  // does, so they take no longer than a user's share of the turn.
  static constexpr int kAcceptsAtATime = 32;

  // `name` stands for the socket in logs. `take` gets each connection, without blocking, and may call Pause. Until
  // Start what comes waits in the backlog.
  Acceptor(UniqueFd listener, const char* name, Loop& loop, std::function<void(UniqueFd)> take);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  void Start();
  // The owner has no room: what comes waits in the backlog, until Resume.
  void Pause() { paused_ = true; }
  void Resume();
  // For good: who tries to connect from now on is refused by the system.
  void Stop();

 private:
  void AcceptSome();
  // The system is out of something; asking it again at once would only keep the loop busy.
  void Rest(int error);

  UniqueFd listener_;
  const char* const name_;
  Loop& loop_;
  const std::function<void(UniqueFd)> take_;
  WatchId watch_ = WatchId::kNone;
  TimerId rest_ = TimerId::kNone;
  bool paused_ = false;
  WarningLimit failures_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ACCEPTOR_H_
