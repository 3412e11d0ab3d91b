// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_HANDSHAKE_WAYS_H_
#define TESTS_BENCH_HANDSHAKE_WAYS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/handshake_board.h"
#include "tests/bench/worker.h"

namespace rdmabroker::bench {

// Microseconds, of one connection.
struct Steps {
  std::vector<double> creation, address, route, reply, active, passive, whole;
  std::vector<double> cpu_of_server, cpu_of_passive, cpu_of_active;
};

// The time of one connection in a group, on average.
struct GroupFigures {
  double microseconds = 0;
  double cpu_microseconds = 0;         // All processes together.
  double server_cpu_microseconds = 0;  // The broker alone.
};

// One way to connect: its processes, and what they have measured.
class HandshakeWay {
 public:
  using MakeHandler = std::function<Worker::Handler(HandshakeBoard&)>;

  // `passive` may be empty. `served_by` is the pid of the broker; 0 if there is none.
  HandshakeWay(std::string name, const MakeHandler& passive, const MakeHandler& active, pid_t served_by);

  GroupFigures Run(uint32_t connections, bool at_once, Steps* steps);

  const std::string& name() const { return name_; }

 private:
  // Processor time of the server and of each worker so far, in seconds.
  std::vector<double> CpuOfEach() const;
  void Note(uint32_t index, Steps* steps) const;

  const std::string name_;
  HandshakeBoard& board_;
  const pid_t served_by_;
  std::vector<std::unique_ptr<Worker>> workers_;  // The accepting side first.
};

// Runs `groups` groups of each way. The ways take turns, and each round begins with another one. An additional first
// round only warms up. Calls `each` after each other round with its figures, in the order of `ways`. Prints the steps
// of each way.
void RunInTurn(const std::vector<HandshakeWay*>& ways, const std::string& how, int groups, uint32_t connections,
               bool at_once, const std::function<void(const std::vector<GroupFigures>&)>& each);

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_HANDSHAKE_WAYS_H_
