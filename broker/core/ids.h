// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_IDS_H_
#define BROKER_CORE_IDS_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace rdmabroker {

// A number that names one thing and cannot be passed for another kind's. 0 names nothing: ids are minted from 1, and
// a kernel that keeps a connection id as its cookie takes 0 for "discard the events" (drivers/infiniband/core/ucma.c).
template <typename Kind>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  constexpr explicit operator bool() const { return value_ != 0; }
  constexpr auto operator<=>(const Id&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const Id& id) {
    return H::combine(std::move(state), id.value_);
  }

 private:
  uint64_t value_ = 0;
};

// What clients name. The core mints them; they are never used again while the broker's state lives.
using SessionId = Id<struct SessionKind>;
using AdapterId = Id<struct AdapterKind>;  // One OpenAdapter; a device may be opened many times.
using ListenerId = Id<struct ListenerKind>;
using SharedEndpointId = Id<struct SharedEndpointKind>;
using ReservationId = Id<struct ReservationKind>;
using ConnectorId = Id<struct ConnectorKind>;

// What the fabrics and the core name to each other.
using DeviceId = Id<struct DeviceKind>;          // A NIC, or software in its place. Its fabric mints it.
using EndpointId = Id<struct EndpointKind>;      // A local address that the core holds at a fabric.
using ConnectionId = Id<struct ConnectionKind>;  // One attempt to connect, and what becomes of it. See below.

// What a client names its request by; repeats of it get the first one's answer. Rising within a session.
using RequestId = Id<struct RequestKind>;
// The number of an event on a session's stream: 1, 2, 3 ...
using EventNumber = Id<struct EventKind>;
// One opened stream or attempt to open one. The control layer mints it; a session has one at a time.
using StreamId = Id<struct StreamKind>;

// A connector that tries again makes another connection, so that a late event of the first is not taken for the
// second's. The core mints the ids of connections that clients start; the fabric mints those of incoming ones, with
// the top bit set, the id of a device of its own in the next 15 bits, and a count, so that no two of them meet.
inline constexpr uint64_t kIncomingConnection = uint64_t{1} << 63;

// The device's id has 15 bits, as not all have.
constexpr ConnectionId IncomingConnection(DeviceId device, uint64_t counter) {
  return ConnectionId(kIncomingConnection | (device.value() << 48) | counter);
}

// What it was minted with; 0 for one that the core has minted.
constexpr uint64_t IncomingCounter(ConnectionId connection) {
  const bool incoming = (connection.value() & kIncomingConnection) != 0;
  return incoming ? connection.value() & ((uint64_t{1} << 48) - 1) : 0;
}

// A queue pair's number on its device: 24 bits on the wire (InfiniBand Architecture Specification, volume 1, 9.2).
struct QpNumber {
  uint32_t value = 0;

  constexpr auto operator<=>(const QpNumber&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const QpNumber& number) {
    return H::combine(std::move(state), number.value);
  }
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_IDS_H_
