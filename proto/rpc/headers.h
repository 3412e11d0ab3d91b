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

// The value of the first field of this name.
std::optional<std::string_view> Find(const Headers& headers, std::string_view name);

// Whether HTTP/2 allows these names and values (RFC 9113 sections 8.2 and 8.3), as far as it matters to gRPC: known
// pseudo-header fields, once each and before all others, none that is about a connection.
bool AreWellFormed(const Headers& headers);

// gRPC's content types: "application/grpc", or that with "+" or ";" behind it.
bool IsGrpc(std::string_view content_type);

// grpc-timeout: up to 8 digits and a unit; nothing for other texts.
std::optional<absl::Duration> ReadTimeout(std::string_view text);
// The least that is not shorter. `timeout` is positive; one beyond what a field can say is as long as it can.
std::string WriteTimeout(absl::Duration timeout);

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_HEADERS_H_
