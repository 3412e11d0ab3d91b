// SPDX-License-Identifier: Apache-2.0

#include "dataplane/ndk/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace rdmabroker {
namespace {

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// An interface's index or name. A null would hide what stands behind it from the kernel.
std::optional<uint32_t> ParseInterface(const std::string& text, std::string* problem) {
  if (const auto index = ParseNumber<uint32_t>(text)) return index;
  const bool possible = !text.empty() && text.size() < IF_NAMESIZE && text.find('\0') == std::string::npos;
  errno = ENODEV;
  const uint32_t index = possible ? ::if_nametoindex(text.c_str()) : 0;
  if (index != 0) return index;
  if (problem == nullptr) return std::nullopt;
  *problem = errno == ENODEV
                 ? "no interface \"" + text + "\" in this network namespace; \"ip link\" shows which there are"
                 : "interface \"" + text + "\": cannot be looked up: " + std::strerror(errno);
  return std::nullopt;
}

}  // namespace

std::optional<IpAddress> IpAddress::Parse(std::string_view text, std::string* problem) {
  const size_t percent = text.find('%');
  const std::string address(text.substr(0, percent));
  // inet_pton reads no further than a null.
  const bool has_null = address.find('\0') != std::string::npos;
  IpAddress ip;
  if (!has_null && percent == std::string_view::npos && ::inet_pton(AF_INET, address.c_str(), ip.bytes.data()) == 1) {
    return ip;
  }
  ip.family = IpFamily::kIpv6;
  if (has_null || ::inet_pton(AF_INET6, address.c_str(), ip.bytes.data()) != 1) {
    if (problem != nullptr) *problem = "not an IP address";
    return std::nullopt;
  }
  if (percent == std::string_view::npos) return ip;
  const auto index = ParseInterface(std::string(text.substr(percent + 1)), problem);
  if (!index) return std::nullopt;
  ip.scope_id = *index;
  return ip;
}

bool IpAddress::IsLoopback() const {
  if (family == IpFamily::kIpv4) return bytes[0] == 127;
  std::array<uint8_t, 16> one = {};
  one[15] = 1;
  return bytes == one;
}

bool IpAddress::IsMulticast() const { return family == IpFamily::kIpv4 ? (bytes[0] & 0xF0) == 0xE0 : bytes[0] == 0xFF; }

std::string IpAddress::ToString(std::string_view interface) const {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(family == IpFamily::kIpv4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  if (scope_id == 0) return text;
  return std::string(text) + "%" + (interface.empty() ? std::to_string(scope_id) : std::string(interface));
}

bool IpAddress::IsLinkLocal() const {
  return family == IpFamily::kIpv6 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
}

bool IpAddress::IsIpv4Mapped() const {
  return family == IpFamily::kIpv6 && bytes[10] == 0xFF && bytes[11] == 0xFF &&
         std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t byte) { return byte == 0; });
}

std::optional<SocketAddress> SocketAddress::Parse(std::string_view text, std::string* problem) {
  if (problem != nullptr) *problem = "not an IP:PORT, with an IPv6 address in brackets";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto port = ParseNumber<uint16_t>(text.substr(colon + 1));
  if (!port || bracketed != (host.find(':') != std::string_view::npos)) return std::nullopt;
  const auto ip = IpAddress::Parse(host, problem);
  if (!ip) return std::nullopt;
  return SocketAddress{*ip, *port};
}

std::string SocketAddress::ToString(std::string_view interface) const {
  const std::string host = ip.ToString(interface);
  return (ip.family == IpFamily::kIpv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string InterfaceName(uint32_t index) {
  char name[IF_NAMESIZE] = {};
  if (::if_indextoname(index, name) == nullptr || ParseNumber<uint32_t>(name)) return {};
  const std::string_view text = name;
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  return printable ? name : std::string();
}

}  // namespace rdmabroker
