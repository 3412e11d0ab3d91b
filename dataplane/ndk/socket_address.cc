// SPDX-License-Identifier: Apache-2.0

#include "dataplane/ndk/socket_address.h"

#include <arpa/inet.h>

#include <algorithm>
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

}  // namespace

std::optional<IpAddress> IpAddress::Parse(std::string_view text) {
  IpAddress ip;
  if (::inet_pton(AF_INET, std::string(text).c_str(), ip.bytes.data()) == 1) return ip;
  ip.family = IpFamily::kIpv6;
  if (const size_t percent = text.find('%'); percent != std::string_view::npos) {
    const auto scope = ParseNumber<uint32_t>(text.substr(percent + 1));
    if (!scope) return std::nullopt;
    ip.scope_id = *scope;
    text = text.substr(0, percent);
  }
  if (::inet_pton(AF_INET6, std::string(text).c_str(), ip.bytes.data()) != 1) return std::nullopt;
  return ip;
}

bool IpAddress::IsLoopback() const {
  if (family == IpFamily::kIpv4) return bytes[0] == 127;
  std::array<uint8_t, 16> one = {};
  one[15] = 1;
  return bytes == one;
}

bool IpAddress::IsMulticast() const { return family == IpFamily::kIpv4 ? (bytes[0] & 0xF0) == 0xE0 : bytes[0] == 0xFF; }

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(family == IpFamily::kIpv4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return scope_id == 0 ? text : std::string(text) + "%" + std::to_string(scope_id);
}

bool IpAddress::IsLinkLocal() const {
  return family == IpFamily::kIpv6 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
}

bool IpAddress::IsIpv4Mapped() const {
  return family == IpFamily::kIpv6 && bytes[10] == 0xFF && bytes[11] == 0xFF &&
         std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t byte) { return byte == 0; });
}

std::optional<SocketAddress> SocketAddress::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto ip = IpAddress::Parse(host);
  const auto port = ParseNumber<uint16_t>(text.substr(colon + 1));
  if (!ip || !port || bracketed != (ip->family == IpFamily::kIpv6)) return std::nullopt;
  return SocketAddress{*ip, *port};
}

std::string SocketAddress::ToString() const {
  const std::string host = ip.family == IpFamily::kIpv6 ? "[" + ip.ToString() + "]" : ip.ToString();
  return host + ":" + std::to_string(port);
}

}  // namespace rdmabroker
