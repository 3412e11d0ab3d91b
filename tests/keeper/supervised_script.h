// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_KEEPER_SUPERVISED_SCRIPT_H_
#define TESTS_KEEPER_SUPERVISED_SCRIPT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "broker/runtime/supervisor.h"

namespace rdmabroker {

// Does with a supervisor what it is told, word by word, so that one in the test's process and one that is a process get
// the same orders. It stands for a process: another one gets another script.
//
//   there                     yes or no
//   interval                  the watchdog's, as absl::FormatDuration has it
//   room                      for how many descriptors
//   ready, stopping, ping, barrier, status TEXT, remove NAME
//   store NAME CONTENTS       a file with these contents, which nobody else has open afterwards
//   twice NAME NAME CONTENTS  one such file, by two descriptors and two names
//   store-hungup NAME         the end of a pipe whose other end is gone
//   kept                      NAME=CONTENTS of each that was kept, in the order of the alphabet
//
// The answer to what asks for nothing is OK or the error's code, such as INVALID_ARGUMENT.
class SupervisedScript {
 public:
  explicit SupervisedScript(Supervisor& supervisor) : supervisor_(supervisor) {}

  // Empty: there is no such order.
  std::string Obey(absl::string_view order);

 private:
  std::string Kept();

  Supervisor& supervisor_;
};

}  // namespace rdmabroker

#endif  // TESTS_KEEPER_SUPERVISED_SCRIPT_H_
