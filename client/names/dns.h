// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_DNS_H_
#define CLIENT_NAMES_DNS_H_

#include <chrono>

#include "client/names/names.h"
#include "client/names/source.h"

namespace rdmabroker::client {

// Resolves by DNS, within the time; a thread of its own may go on for up to two minutes where name servers are silent.
// kInsufficientResources: too many do.
Resolution ResolveByDns(const ParsedName& name, const DnsSource& source, std::chrono::milliseconds timeout);

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_DNS_H_
