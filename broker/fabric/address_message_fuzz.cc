// SPDX-License-Identifier: Apache-2.0

// What the kernel says of an address: a message of its list.

#include "broker/fabric/address_message.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  const std::vector<uint8_t> message(data, data + size);  // Aligned, and the sanitizer knows its end.
  const auto ip = ParseAddressMessage(message.data(), static_cast<int>(message.size()));
  if (!ip) return 0;
  Require(size >= sizeof(ifaddrmsg) + sizeof(rtattr), "an address has a message");
  const auto* const body = reinterpret_cast<const ifaddrmsg*>(message.data());
  const bool is_ipv4 = ip->family == IpFamily::kIpv4;
  Require(body->ifa_family == (is_ipv4 ? AF_INET : AF_INET6), "an address has its message's family");
  Require(ip->scope_id == (ip->IsLinkLocal() ? body->ifa_index : 0), "a link-local address has its interface");
  const auto* const bytes = ip->bytes.data();
  Require(
      std::search(message.begin() + sizeof *body, message.end(), bytes, bytes + (is_ipv4 ? 4 : 16)) != message.end(),
      "the message has the address");
  Require(!is_ipv4 || std::all_of(bytes + 4, bytes + 16, [](uint8_t byte) { return byte == 0; }),
          "an IPv4 address has four bytes");
  return 0;
}
