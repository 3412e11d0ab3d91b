// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_HEADERS_H_
#define PROTO_RPC_HEADERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace rdmabroker::rpc {

struct HeaderField {
  std::string name;
  std::string value;

  bool operator==(const HeaderField&) const = default;
};
using Headers = std::vector<HeaderField>;

// Returns the value of the first field with this name.
std::optional<std::string_view> Find(const Headers& headers, std::string_view name);

// Whether HTTP/2 allows these fields (RFC 9113 sections 8.2 and 8.3): valid names and values, no connection-specific
// field, and only known pseudo-header fields, each once and before the other fields.
bool AreWellFormed(const Headers& headers);

// Whether this is a content type of gRPC: "application/grpc", also with a suffix that begins with "+" or ";".
bool IsGrpc(std::string_view content_type);

// Reads a value of grpc-timeout: up to 8 digits and a unit. Returns nothing for any other text.
std::optional<absl::Duration> ReadTimeout(std::string_view text);
// Writes a value of grpc-timeout, rounded up to the finest unit that fits. `timeout` must be positive. A timeout above
// 99,999,999 hours becomes that.
std::string WriteTimeout(absl::Duration timeout);

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_HEADERS_H_
