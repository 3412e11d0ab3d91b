// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_CHILD_PROCESS_H_
#define TESTS_CONTROL_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dataplane/unique_fd.h"
#include "tests/control/patience.h"

namespace rdmabroker {

// A program that runs beside the test, which speaks to its standard input and output. It is killed with its object.
class ChildProcess {
 public:
  // Where its standard error goes: to the test's, or to where its standard output goes.
  enum class Errors { kToTheTests, kToItsOutput };

  explicit ChildProcess(std::vector<std::string> command, Errors errors = Errors::kToTheTests);
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line that it prints, without its end; "" where it has ended or prints nothing for longer than the
  // patience.
  std::string ReadLine(absl::Duration patience = kTestPatience);
  // Onto its standard input.
  void WriteLine(const std::string& line);
  // All that it prints until its end, or until it prints nothing for longer than a test waits.
  std::string ReadAll();
  void Signal(int signal);
  // SIGKILL, without waiting for its end.
  void StartKill();
  // SIGKILL, and waits for its end.
  void Kill();
  // Ends its standard input.
  void CloseInput() { input_.Reset(); }
  // The same, and waits for its end: the exit status, or the negative number of the signal that ended
  // it.
  int Finish();
  // Waits for its end, by itself: as Finish. Nothing where it goes on for longer than the patience.
  std::optional<int> End(absl::Duration patience = kTestPatience);

 private:
  // False at the end, or when nothing comes.
  bool ReadByte(char* byte, absl::Duration patience = kTestPatience);

  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
};

// How a program has ended, and what it said.
struct Ending {
  int status = -1;  // As ChildProcess::Finish.
  std::string output;
  std::string error;
};

// Waits for the program's end; its standard error goes through the new file `error_file`.
Ending RunToEnd(std::vector<std::string> command, const std::string& error_file);

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_CHILD_PROCESS_H_
