// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_SEQUENCE_H_
#define TESTS_CONFORMANCE_MISUSE_SEQUENCE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/session.h"
#include "tests/conformance/misuse/functions.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker::misuse {

// A broker, and two programs that use it as they should not. Sessions live over many sequences, unless a sequence ends
// one: what a sequence leaves behind would be seen at the broker.
class Programs {
 public:
  explicit Programs(const ndkpi::Surroundings& surroundings);

  // Runs one sequence. Returns what went wrong: at least 20 calls are made, then everything is closed, in any order.
  // Where something never ends the test's process ends, after it has said what.
  std::vector<std::string> Run(uint64_t seed, Tally& tally);
  // What the last sequence was, a line for each call and event.
  const std::vector<std::string>& log() const { return log_; }
  // The broker ends, once nobody speaks to it: its exit status.
  int End();

 private:
  void OpenSessions();
  void ExpectNothingLeft(std::vector<std::string>* problems);

  const ndkpi::Surroundings& surroundings_;
  std::unique_ptr<RunningBroker> broker_;
  std::array<std::unique_ptr<client::Session>, 2> sessions_;
  std::vector<std::string> log_;
};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_SEQUENCE_H_
