// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_NEIGHBOUR_H_
#define TESTS_INTEGRATION_NEIGHBOUR_H_

#include <functional>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A second network, joined with this process's own by a pair of veth devices, whose packets are Ethernet's: of 1500
// bytes. EnterOwnNamespaces comes first. Failing calls fail the test.
class Neighbour {
 public:
  Neighbour();

  // Runs it with this thread in that network: sockets that it opens and processes that it starts are there.
  void Run(const std::function<void()>& work);

  // Whether what the two networks send each other gets lost, without a word, from now on.
  void Lose(bool all);
  // Whether its end of the pair is without power.
  void PullPlug(bool pulled);

  static constexpr char kInterface[] = "near";  // This network's end of the pair.
  static constexpr char kAddress[] = "192.0.2.1";
  static constexpr char kItsAddress[] = "192.0.2.2";

 private:
  UniqueFd here_;  // Network namespaces.
  UniqueFd there_;
};

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_NEIGHBOUR_H_
