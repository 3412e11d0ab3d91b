// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CLIENT_PROCESSES_H_
#define BROKER_CONTROL_CLIENT_PROCESSES_H_

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>

#include "absl/time/time.h"
#include "broker/core/ids.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Reports sessions whose processes have ended, even if a child has inherited the connection. Where another process has
// the number by now, that one is watched, and the session ends with its connection or after its grace period. Needs a
// descriptor for each session. Loop thread only.
class ClientProcesses {
 public:
  // `ended` is called once for each session whose process has ended, at the earliest after kLastWords. It is never
  // called inside Watch, nor after Forget.
  ClientProcesses(Loop& loop, std::function<void(SessionId)> ended) : loop_(loop), ended_(std::move(ended)) {}
  ~ClientProcesses();
  ClientProcesses(const ClientProcesses&) = delete;
  ClientProcesses& operator=(const ClientProcesses&) = delete;

  // `process`: the session's; 0, which cannot be seen from here, does nothing. One that is watched already is listened
  // to again.
  void Watch(SessionId session, pid_t process);
  // The session has lost its stream: there are no last words to hear. It is reported as soon as its process has ended,
  // until Watch is called for it again.
  void StopListening(SessionId session);
  // The session has ended.
  void Forget(SessionId session);

  // The time in which the broker still reads what the process wrote before its end.
  static constexpr absl::Duration kLastWords = absl::Milliseconds(200);
  // The most sessions that are reported in a turn of the loop. Ending one takes a commit: a tenth of a millisecond.
  static constexpr size_t kInATurn = 8;

 private:
  struct Process {
    UniqueFd fd;
    WatchId watch = WatchId::kNone;
    TimerId last_words = TimerId::kNone;  // Since its end was seen.
    bool listened_to = true;
  };

  void AwaitLastWords(SessionId session, Process& process);
  void ReportSoon();
  void ReportSome();

  Loop& loop_;
  const std::function<void(SessionId)> ended_;
  std::unordered_map<uint64_t, Process> processes_;  // By SessionId.
  std::deque<SessionId> due_;                        // Sessions to report in the next turns.
  TimerId report_ = TimerId::kNone;                  // While there are some.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CLIENT_PROCESSES_H_
