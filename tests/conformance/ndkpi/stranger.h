// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_STRANGER_H_
#define TESTS_CONFORMANCE_NDKPI_STRANGER_H_

#include <optional>

#include "broker/fabric/iwarp/testing/raw_peer.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {

// A peer that does without the broker. Has asked to connect, and offers as many reads as its wire can say, which is
// more than any of the adapters has; goes with its object, or on the fake when the next one comes.
class Stranger {
 public:
  Stranger(World& w, const SocketAddress& destination);

 private:
  std::optional<RawPeer> tcp_;
  std::optional<CmProcess> rdma_;
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_STRANGER_H_
