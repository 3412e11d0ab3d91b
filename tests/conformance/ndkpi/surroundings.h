// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_SURROUNDINGS_H_
#define TESTS_CONFORMANCE_NDKPI_SURROUNDINGS_H_

#include <array>
#include <string>
#include <vector>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::ndkpi {

// An adapter and the network that it is in.
struct Surroundings {
  std::string adapter;  // The column of docs/conformance.md.
  std::string device;   // The broker's name of it.
  // Two of the device's addresses of each family: IPv4 and IPv6.
  std::array<std::array<IpAddress, 2>, 2> ips;
  IpAddress silent;    // Of the device's network; nobody answers.
  IpAddress no_route;  // Of a network to which no route leads.
  IpAddress no_host;   // The network says that there is nobody.
  IpAddress foreign;   // No device has it.
};

// Makes what it can of them in this process's network, before it has threads. The rest tests/vm/conformance has made.
// The test's process ends where there is no such adapter.
Surroundings Prepare(const std::string& adapter);

// A broker's settings: brokers of test processes that run at the same time choose ports where the others do not.
std::string OwnPorts();

// The columns of docs/conformance.md.
inline const std::vector<std::string>& Adapters() {
  static const auto* const kAdapters = new std::vector<std::string>{"fake", "iwarp", "rxe", "siw"};
  return *kAdapters;
}

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_SURROUNDINGS_H_
