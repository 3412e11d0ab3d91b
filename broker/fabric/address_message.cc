// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/address_message.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dataplane/netlink.h"

namespace rdmabroker {

std::optional<IpAddress> ParseAddressMessage(const void* first, int length) {
  const auto* const body = static_cast<const ifaddrmsg*>(first);
  if (length < static_cast<int>(sizeof *body)) return std::nullopt;
  if (body->ifa_family != AF_INET && body->ifa_family != AF_INET6) return std::nullopt;
  IpAddress ip = {.family = body->ifa_family == AF_INET ? IpFamily::kIpv4 : IpFamily::kIpv6};
  const size_t ip_length = body->ifa_family == AF_INET ? 4 : 16;
  uint32_t flags = body->ifa_flags;
  bool has_local = false;
  bool has_address = false;
  ForEachAttribute(body + 1, length - static_cast<int>(sizeof *body), [&](int type, const rtattr* attribute) {
    // On point-to-point links IFA_ADDRESS is the peer's.
    const bool local = type == IFA_LOCAL;
    if ((local || (type == IFA_ADDRESS && !has_local)) && RTA_PAYLOAD(attribute) >= ip_length) {
      std::memcpy(ip.bytes.data(), RTA_DATA(attribute), ip_length);
      has_local |= local;
      has_address = true;
    } else if (type == IFA_FLAGS && RTA_PAYLOAD(attribute) >= sizeof flags) {
      std::memcpy(&flags, RTA_DATA(attribute), sizeof flags);
    }
  });
  const bool tentative = (flags & IFA_F_TENTATIVE) != 0 && (flags & IFA_F_OPTIMISTIC) == 0;
  if (!has_address || tentative || (flags & IFA_F_DADFAILED) != 0) return std::nullopt;
  if (ip.IsLinkLocal()) ip.scope_id = body->ifa_index;
  return ip;
}

}  // namespace rdmabroker
