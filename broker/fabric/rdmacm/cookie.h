// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_COOKIE_H_
#define BROKER_FABRIC_RDMACM_COOKIE_H_

#include <cstdint>
#include <variant>

#include "broker/core/ids.h"

namespace rdmabroker {

// What a kernel's connection manager id stands for, as the 64 bits that the kernel returns with each of its events:
// an id of the core's, which means the same to the process that takes over. Never 0, by which the kernel discards
// events (drivers/infiniband/core/ucma.c, ucma_event_handler).
//
// Connections keep their numbers: the top bit is set in those of incoming ones (IncomingConnection), and the next two
// are clear in the others, which are counted from 1.
using CookieMeaning = std::variant<ConnectionId, EndpointId, DeviceId>;

inline constexpr uint64_t kEndpointCookie = uint64_t{1} << 62;
inline constexpr uint64_t kDeviceCookie = uint64_t{1} << 61;

constexpr uint64_t CookieOf(ConnectionId id) { return id.value(); }
constexpr uint64_t CookieOf(EndpointId id) { return id.value() | kEndpointCookie; }
constexpr uint64_t CookieOf(DeviceId id) { return id.value() | kDeviceCookie; }

constexpr CookieMeaning MeaningOf(uint64_t cookie) {
  if ((cookie & kIncomingConnection) != 0) return ConnectionId(cookie);
  if ((cookie & kEndpointCookie) != 0) return EndpointId(cookie & ~kEndpointCookie);
  if ((cookie & kDeviceCookie) != 0) return DeviceId(cookie & ~kDeviceCookie);
  return ConnectionId(cookie);
}

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_COOKIE_H_
