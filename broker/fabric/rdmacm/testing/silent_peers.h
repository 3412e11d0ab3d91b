// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_SILENT_PEERS_H_
#define BROKER_FABRIC_RDMACM_TESTING_SILENT_PEERS_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Where the device's connects go and nobody answers: what RDMA_SILENT_PEERS_4 or _6 lists. The test has failed where
// that is nothing.
inline std::vector<SocketAddress> SilentPeers(IpFamily family) {
  const char* const variable = family == IpFamily::kIpv4 ? "RDMA_SILENT_PEERS_4" : "RDMA_SILENT_PEERS_6";
  const char* const listed = std::getenv(variable);
  std::istringstream words(listed == nullptr ? "" : listed);
  std::vector<SocketAddress> peers;
  for (std::string word; words >> word;) peers.push_back({IpAddress::Parse(word).value_or(IpAddress()), 7000});
  EXPECT_FALSE(peers.empty()) << variable << " names no address";
  return peers;
}
// The first of them.
inline SocketAddress SilentPeer(IpFamily family) {
  const std::vector<SocketAddress> peers = SilentPeers(family);
  return peers.empty() ? SocketAddress() : peers.front();
}

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_SILENT_PEERS_H_
