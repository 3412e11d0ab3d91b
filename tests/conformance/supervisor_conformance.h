// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_SUPERVISOR_CONFORMANCE_H_
#define TESTS_CONFORMANCE_SUPERVISOR_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

namespace rdmabroker {

// What the suite needs of an implementation of Supervisor: something that does with it what SupervisedScript says, and
// that can die and be started anew.
class SupervisedWorld {
 public:
  virtual ~SupervisedWorld() = default;

  virtual std::string Obey(const std::string& order) = 0;
  virtual void Restart() = 0;
};

struct SupervisorConformanceCase {
  std::function<std::unique_ptr<SupervisedWorld>()>
      supervised;  // By one whose watchdog waits for 20 s, and that has room for 8 descriptors.
  std::function<std::unique_ptr<SupervisedWorld>()> alone;  // With no supervisor.
};

class SupervisorConformance : public testing::TestWithParam<SupervisorConformanceCase> {
 protected:
  std::unique_ptr<SupervisedWorld> world_ = GetParam().supervised();
};

}  // namespace rdmabroker

#endif  // TESTS_CONFORMANCE_SUPERVISOR_CONFORMANCE_H_
