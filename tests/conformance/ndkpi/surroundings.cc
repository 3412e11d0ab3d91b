// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/surroundings.h"

#include <cstdio>
#include <cstdlib>

#include "tests/integration/own_namespaces.h"

namespace rdmabroker::ndkpi {
namespace {

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

void Require(bool fine, const std::string& what) {
  if (fine) return;
  std::fprintf(stderr, "ndkpi_test: %s\n", what.c_str());
  std::exit(1);
}

// An interface whose packets somebody takes, and nobody answers.
void MakeNetwork() {
  Require(EnterOwnNamespaces().empty(), EnterOwnNamespaces());
  for (const char* command : {
           "link add nobody type veth peer name void",
           "link set void up",
           "link set nobody arp off up",
           "address add 10.78.0.1/24 dev nobody",
           "address add 10.78.0.2/24 dev nobody",
           "address add fd00:78::1/64 dev nobody nodad",
           "address add fd00:78::2/64 dev nobody nodad",
           "route add unreachable 10.78.9.0/24",
       }) {
    // The commands are these and nobody else's.
    Require(std::system((std::string("ip ") + command).c_str()) == 0, command);  // NOLINT(cert-env33-c)
  }
}

}  // namespace

std::string OwnPorts() {
  constexpr int kLowest = 49152, kPorts = 2048;
  const char* const shard = std::getenv("GTEST_SHARD_INDEX");
  if (shard == nullptr) return "";
  const int first = kLowest + std::atoi(shard) % 8 * kPorts;
  return "limits.first_ephemeral_port = " + std::to_string(first) +
         "\nlimits.last_ephemeral_port = " + std::to_string(first + kPorts - 1) + "\n";
}

Surroundings Prepare(const std::string& adapter) {
  if (adapter == "fake") {
    return {.adapter = adapter,
            .device = "fake0",
            .ips = {{{Ip("192.0.2.1"), Ip("2001:db8::1")}, {Ip("192.0.2.2"), Ip("2001:db8::2")}}},
            .silent = Ip("192.0.2.250"),
            .no_route = Ip("203.0.113.1"),
            .no_host = Ip("192.0.2.251"),
            .foreign = Ip("198.51.100.1")};
  }
  if (adapter == "iwarp") {
    MakeNetwork();
    return {.adapter = adapter,
            .device = "iwarp0",
            .ips = {{{Ip("10.78.0.1"), Ip("fd00:78::1")}, {Ip("10.78.0.2"), Ip("fd00:78::2")}}},
            .silent = Ip("10.78.0.250"),
            .no_route = Ip("203.0.113.1"),
            .no_host = Ip("10.78.9.1"),
            .foreign = Ip("198.51.100.1")};
  }
  Require(adapter == "rxe" || adapter == "siw", "there is no adapter " + adapter);
  return {.adapter = adapter,
          .device = adapter + "0",
          .ips = {{{Ip("10.77.0.1"), Ip("fd00:77::1")}, {Ip("10.77.0.2"), Ip("fd00:77::2")}}},
          .silent = Ip("10.77.0.250"),
          .no_route = Ip("2001:db8::1"),
          .no_host = Ip("10.78.9.1"),
          .foreign = Ip("198.51.100.1")};
}

}  // namespace rdmabroker::ndkpi
