// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_FAKE_SURROUNDINGS_H_
#define TESTS_CONFORMANCE_NDKPI_FAKE_SURROUNDINGS_H_

#include <memory>
#include <string>

#include "broker/fabric/fake/fake_fabric.h"
#include "tests/control/network_thread.h"

namespace rdmabroker::ndkpi {

// Queue pairs on it are user-space iWARP's, over sockets of this machine.
FakeDevice TheFakeDevice();

// The network of TheFakeDevice, as Surroundings describe it, and who else is there.
class FakeSurroundings {
 public:
  FakeSurroundings();
  ~FakeSurroundings();
  FakeSurroundings(const FakeSurroundings&) = delete;
  FakeSurroundings& operator=(const FakeSurroundings&) = delete;

  NetworkThread& network() { return network_; }

  // Commands, answered by "done" or by what is in the way. "occupy ADDRESS", "vacate ADDRESS": a process outside takes
  // the address, and gives it back; "ask ADDRESS": a process outside, whose device has more than the broker's, asks to
  // connect there; "stand", "go": nothing is heard of the fabric from the one to the other.
  std::string Answer(const std::string& command);

 private:
  void Ask(FakeNetwork& network, const SocketAddress& destination);

  NetworkThread network_;
  std::unique_ptr<FakeFabric> stranger_;  // On the network's thread only.
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_FAKE_SURROUNDINGS_H_
