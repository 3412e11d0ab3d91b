// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_SOCKET_ADDRESS_H_
#define DATAPLANE_NDK_SOCKET_ADDRESS_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rdmabroker {

// A version of the Internet Protocol; the numbers are the versions'.
enum class IpFamily : uint8_t { kIpv4 = 4, kIpv6 = 6 };

// An IPv4 or IPv6 address. An IPv4 address uses the first four bytes; the others are zero.
struct IpAddress {
  IpFamily family = IpFamily::kIpv4;
  std::array<uint8_t, 16> bytes = {};  // Network byte order.
  uint32_t scope_id = 0;               // Interface index of a link-local IPv6 address, else 0.

  auto operator<=>(const IpAddress&) const = default;

  // The wildcard: 0.0.0.0 or ::.
  static IpAddress Any(IpFamily family) { return {.family = family}; }
  // "192.0.2.1", "2001:db8::1", "fe80::1%3", "fe80::1%eth0". What follows % is an interface's index or, where it is no
  // number, the name of an interface of the calling thread's network namespace. Empty for anything else, such as a name
  // that no interface has; `*problem`, unless null, is then why, for a person.
  static std::optional<IpAddress> Parse(std::string_view text, std::string* problem = nullptr);

  // 0.0.0.0 or ::.
  bool IsAny() const { return bytes == std::array<uint8_t, 16>{}; }
  bool IsLoopback() const;
  bool IsMulticast() const;
  // An address in fe80::/10, which means something on one interface only. False for every IPv4 address.
  bool IsLinkLocal() const;
  // An IPv6 address that stands for an IPv4 one, in ::ffff:0:0/96 (RFC 4291, section 2.5.5.2).
  bool IsIpv4Mapped() const;
  // "fe80::1%3", or "fe80::1%eth0" with the interface's name. Parse takes either.
  std::string ToString(std::string_view interface = {}) const;

  template <typename H>
  friend H AbslHashValue(H state, const IpAddress& ip) {
    return H::combine(std::move(state), ip.family, ip.bytes, ip.scope_id);
  }
};

// An IP address and a port: what NDKPI calls an endpoint's local address, and a connection's peer address.
struct SocketAddress {
  IpAddress ip;
  uint16_t port = 0;  // Host byte order; 0 asks for an ephemeral port where one may be asked for.

  auto operator<=>(const SocketAddress&) const = default;

  // "192.0.2.1:4420", "[2001:db8::1]:4420", "[fe80::1%eth0]:4420"; the address as IpAddress::Parse takes it.
  static std::optional<SocketAddress> Parse(std::string_view text, std::string* problem = nullptr);
  std::string ToString(std::string_view interface = {}) const;

  template <typename H>
  friend H AbslHashValue(H state, const SocketAddress& address) {
    return H::combine(std::move(state), address.ip, address.port);
  }
};

// The name that the interface with this index has now in the calling thread's network namespace. Empty where there is
// no such interface, where Parse would take the name for an index, and where it is not printable ASCII.
std::string InterfaceName(uint32_t index);

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_SOCKET_ADDRESS_H_
