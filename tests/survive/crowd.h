// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_CROWD_H_
#define TESTS_SURVIVE_CROWD_H_

#include <list>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/control/child_process.h"

namespace rdmabroker {

// How long each of many took, the fastest first.
struct Durations {
  std::vector<absl::Duration> sorted;

  absl::Duration median() const { return sorted[sorted.size() / 2]; }
  absl::Duration slowest() const { return sorted.back(); }
};
// "1000, 2 ms the fastest, 5 ms the median, 9 ms the slowest".
std::string Text(const Durations& durations);

// Many clients of a broker, each with a session, a connection and a queue pair of its own, in a few processes; and one
// more, in a process of its own, that accepts all of their connections over the device. What none of them may notice, a
// failure, a session's or a connection's end, fails the test; the rest is meaningless then.
class Crowd {
 public:
  // `address` is the listener's, without a port.
  Crowd(const std::string& control_socket, size_t clients, const std::string& ip, const std::string& device = "iwarp0");

  // Each connects, all at once: until its connection is established.
  Durations Connect() { return Do("connect " + address_, Now()); }
  // Each makes a request, all at once: from `since` until it has been carried out.
  Durations Ask(absl::Duration since = Now()) { return Do("ask", since); }
  // The listener's client makes one, as Ask. Others' may be made in between.
  void BeginAskAlone() { listener_.front().WriteLine("ask"); }
  Durations EndAskAlone(absl::Duration since);
  // Of connections and sessions, at both ends.
  int Losses();

  // CLOCK_MONOTONIC, which all processes share.
  static absl::Duration Now();

 private:
  Durations Do(const std::string& order, absl::Duration since);

  std::list<ChildProcess> processes_;
  std::list<ChildProcess> listener_;  // One.
  std::string address_;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_CROWD_H_
