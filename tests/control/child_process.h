// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_CHILD_PROCESS_H_
#define TESTS_CONTROL_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A program that runs beside the test, which speaks to its standard input and output. It is killed with its object.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command);
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line that it prints, without its end; "" where it has ended.
  std::string ReadLine();
  void Signal(int signal);
  // SIGKILL, without waiting for its end.
  void StartKill();
  // SIGKILL, and waits for its end.
  void Kill();
  // Ends its standard input, and waits for its end: the exit status, or -1 where a signal ended it.
  int Finish();

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_CHILD_PROCESS_H_
