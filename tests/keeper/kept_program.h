// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_KEEPER_KEPT_PROGRAM_H_
#define TESTS_KEEPER_KEPT_PROGRAM_H_

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/control/child_process.h"

namespace rdmabroker {

// rdma-broker-keeper with the program supervised.cc as its child, as processes.
class KeptProgram {
 public:
  static constexpr char kKeeper[] = "broker/keeper/rdma-broker-keeper";
  static constexpr char kSupervised[] = "tests/keeper/supervised";

  // The keeper's options. `before` is a command that runs the keeper, such as unshare(1).
  explicit KeptProgram(std::vector<std::string> options = {}, std::vector<std::string> before = {});
  // Without a keeper.
  struct Unsupervised {};
  explicit KeptProgram(Unsupervised);

  // The next child has started: its number, in its own pid namespace. Nothing where there comes none.
  std::optional<pid_t> NextChild();
  // The child's answer; "" where there comes none.
  std::string Ask(const std::string& order);
  // For orders that the child does not survive.
  void Tell(const std::string& order) { process_.WriteLine(order); }
  // The next line of the keeper's log that has this text, after the one that was found last; "" where there comes none.
  std::string NextLogged(const std::string& text);
  bool Logs(const std::string& text) { return !NextLogged(text).empty(); }
  // What it has logged, as far as it was read.
  const std::vector<std::string>& log() const { return log_; }

  ChildProcess& keeper() { return process_; }

 private:
  // Reads one more line; false at the end.
  bool Read();
  // The child's next line without its beginning; nothing at the end.
  std::optional<std::string> NextAnswer();

  ChildProcess process_;
  std::deque<std::string> answers_;
  std::vector<std::string> log_;
  size_t searched_ = 0;  // Of the log.
};

}  // namespace rdmabroker

#endif  // TESTS_KEEPER_KEPT_PROGRAM_H_
