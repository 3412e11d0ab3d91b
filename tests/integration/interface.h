// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_INTERFACE_H_
#define TESTS_INTEGRATION_INTERFACE_H_

#include <string>

namespace rdmabroker {

// Interfaces of the calling thread's network. Each returns whether the kernel did it; errno tells why not.

bool RaiseInterface(const std::string& name);
bool LowerInterface(const std::string& name);
bool SetMtu(const std::string& name, int mtu);
// An IPv4 address in a network of 24 bits.
bool SetAddress(const std::string& name, const std::string& address);
// What goes to that IPv4 address goes to a station that is not there, until it is asked for anew.
bool MisdirectNeighbour(const std::string& name, const std::string& address);
bool AskForNeighbour(const std::string& name, const std::string& address);
// A pair of veth devices: `name` here, `peer` in the network namespace of that descriptor, or here where it is
// negative.
bool MakeVethPair(const std::string& name, const std::string& peer, int peers_namespace);
// An IPv6 address in a network of 64 bits, which can be used at once.
bool AddIpv6Address(const std::string& name, const std::string& address);
// EBUSY: an older kernel (before Linux 6.2) renames no interface that is up.
bool RenameInterface(const std::string& name, const std::string& to);

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_INTERFACE_H_
