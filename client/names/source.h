// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_SOURCE_H_
#define CLIENT_NAMES_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/names/names.h"
#include "dataplane/ndk/socket_address.h"

// What both sources of names have in common.
namespace rdmabroker::client {

// More addresses than anybody would try.
inline constexpr size_t kMostAddresses = 16;

struct ParsedName {
  std::string host;   // Letters, digits, '-', '_' and '.'; empty where `literal` is set.
  uint16_t port = 0;  // 0: none.
  std::optional<SocketAddress> literal;
};
// Nothing where the name is malformed; `*problem`, unless null, is then why, where it begins like a literal address.
std::optional<ParsedName> ParseName(std::string_view name, std::string* problem = nullptr);

struct EtcdSource {
  std::vector<std::string> endpoints;  // HOST:PORT.
  std::string prefix;
  bool tls = false;
};
std::optional<EtcdSource> ParseEtcdSource(std::string_view source);

// "dns": no server; "dns://192.0.2.53:53".
struct DnsSource {
  std::optional<SocketAddress> server;
};
std::optional<DnsSource> ParseDnsSource(std::string_view source);

// Whether somebody could connect to it: unicast, with a port and, if it is link-local, with its interface.
bool IsUsable(const SocketAddress& address);

// Text of a server for a hint: without line ends and control characters, and of 512 bytes at most.
std::string OneLine(std::string text);

inline Resolution Failure(NdkStatus status, std::string hint, bool retryable = false) {
  return {.outcome = {.status = status, .retryable = retryable, .hint = std::move(hint)}, .addresses = {}};
}

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_SOURCE_H_
