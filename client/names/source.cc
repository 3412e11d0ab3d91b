// SPDX-License-Identifier: Apache-2.0

#include "client/names/source.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace rdmabroker::client {
namespace {

constexpr std::string_view kScheme = "rdma-broker://";
constexpr size_t kLongestName = 253;  // Of DNS (RFC 1035, 2.3.4).
constexpr size_t kMostEndpoints = 16;
constexpr std::string_view kDefaultPrefix = "rdma-broker";

bool Consume(std::string_view* text, std::string_view beginning) {
  if (!text->starts_with(beginning)) return false;
  text->remove_prefix(beginning.size());
  return true;
}

// Not locale's, which a program may set.
bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool IsHost(std::string_view host) {
  return !host.empty() && host.size() <= kLongestName && host.front() != '.' &&
         host.find("..") == std::string_view::npos && std::all_of(host.begin(), host.end(), IsNameCharacter);
}

// 1 to 65535.
std::optional<uint16_t> ParsePort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

bool IsEndpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !ParsePort(text.substr(colon + 1))) return false;
  return IsHost(text.substr(0, colon)) || SocketAddress::Parse(text).has_value();
}

}  // namespace

std::optional<ParsedName> ParseName(std::string_view name, std::string* problem) {
  if (!Consume(&name, kScheme)) return std::nullopt;
  ParsedName parsed;
  const bool bracketed = name.starts_with('[');
  parsed.literal = SocketAddress::Parse(name, bracketed ? problem : nullptr);
  if (parsed.literal.has_value()) return parsed;
  if (bracketed) return std::nullopt;
  const size_t colon = name.find(':');
  parsed.host = name.substr(0, colon);
  if (!IsHost(parsed.host)) return std::nullopt;
  if (colon == std::string_view::npos) return parsed;
  const auto port = ParsePort(name.substr(colon + 1));
  if (!port.has_value()) return std::nullopt;
  parsed.port = *port;
  return parsed;
}

std::optional<EtcdSource> ParseEtcdSource(std::string_view source) {
  EtcdSource parsed;
  parsed.tls = Consume(&source, "etcds://");
  if (!parsed.tls && !Consume(&source, "etcd://")) return std::nullopt;
  const size_t slash = source.find('/');
  parsed.prefix = slash == std::string_view::npos ? kDefaultPrefix : source.substr(slash + 1);
  if (parsed.prefix.empty()) return std::nullopt;
  std::string_view rest = source.substr(0, slash);
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view endpoint = rest.substr(0, comma);
    if (!IsEndpoint(endpoint) || parsed.endpoints.size() == kMostEndpoints) return std::nullopt;
    parsed.endpoints.emplace_back(endpoint);
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<DnsSource> ParseDnsSource(std::string_view source) {
  if (source == "dns") return DnsSource{};
  if (!Consume(&source, "dns://")) return std::nullopt;
  const auto server = SocketAddress::Parse(source);
  if (!server.has_value() || server->ip.family != IpFamily::kIpv4 || !IsUsable(*server)) return std::nullopt;
  return DnsSource{server};
}

bool IsUsable(const SocketAddress& address) {
  constexpr std::array<uint8_t, 4> kBroadcast = {255, 255, 255, 255};
  const bool broadcast = address.ip.family == IpFamily::kIpv4 &&
                         std::equal(kBroadcast.begin(), kBroadcast.end(), address.ip.bytes.begin());
  const bool on_no_link = address.ip.IsLinkLocal() && address.ip.scope_id == 0;
  return address.port != 0 && !address.ip.IsAny() && !address.ip.IsMulticast() && !broadcast && !on_no_link;
}

std::string OneLine(std::string text) {
  constexpr size_t kLongest = 512;  // A cause of gRPC's has a few hundred.
  text.resize(std::min(text.size(), kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

bool IsName(const std::string& text) { return text.starts_with(kScheme); }

}  // namespace rdmabroker::client
