// SPDX-License-Identifier: Apache-2.0

// How records lie in a store's file: pairs of a key and a value, in the order of the keys.
//
//   key     a byte for the kind, the id and the number, both in eight bytes, the most significant first
//   value   the checksum of key and message, the least significant of its eight bytes first, and the message
//
// The messages are those of records.proto. In every version the header is the first pair and has this form, so that an
// older broker can tell what it cannot read.

#ifndef BROKER_STORE_FORMAT_H_
#define BROKER_STORE_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "broker/core/state.h"
#include "broker/store/records.pb.h"

namespace rdmabroker::store {

// What this broker writes, and the highest that it reads. records.proto says what raises it. It has a source of its
// own, in whose place a test's broker of another day has another.
extern const uint32_t kFormatVersion;

// In the order in which they are read: what others are parts of comes before them. The numbers are kept for ever.
enum class Kind : uint8_t {
  kHeader = 0,
  kCounters = 1,
  kDevice = 2,
  kSession = 3,
  kAdapter = 4,
  kListener = 5,
  kSharedEndpoint = 6,
  kReservation = 7,
  kConnector = 8,
  kEndpoint = 9,
  kConnection = 10,
  kAnswer = 11,  // The id is the session's, the number the request's.
  kEvent = 12,   // The id is the session's, the number the event's.
  kFabricEndpoint = 13,
  kFabricConnection = 14,
};
inline constexpr Kind kLastKind = Kind::kFabricConnection;

struct Key {
  Kind kind = Kind::kHeader;
  uint64_t id = 0;
  uint64_t number = 0;

  bool operator==(const Key&) const = default;
};

using KeyBytes = std::array<char, 17>;
KeyBytes ToBytes(const Key& key);
// Nothing for what ToBytes does not give.
std::optional<Key> KeyFromBytes(std::string_view bytes);
// "connector 7", "event 3 of session 7": for errors.
std::string ToString(const Key& key);

// CRC-64 (ECMA-182): every damage of up to 64 bits in a row is seen, and of others all but one in 2^64, for the sum of
// the checksums, too. ISA-L, which the broker has for CRC-32C already, takes no longer for it than for 32 bits.
uint64_t ChecksumOf(std::string_view key, std::string_view message);
inline constexpr size_t kChecksumSize = 8;
void PutChecksum(uint64_t checksum, char* to);
uint64_t GetChecksum(const char* from);

// Under which kind and as which message a record of the core is stored.
template <typename Record>
struct StoredAs;

template <>
struct StoredAs<DeviceRecord> {
  static constexpr Kind kKind = Kind::kDevice;
  using Message = v1::Device;
};
template <>
struct StoredAs<SessionRecord> {
  static constexpr Kind kKind = Kind::kSession;
  using Message = v1::Session;
};
template <>
struct StoredAs<AdapterRecord> {
  static constexpr Kind kKind = Kind::kAdapter;
  using Message = v1::Adapter;
};
template <>
struct StoredAs<ListenerRecord> {
  static constexpr Kind kKind = Kind::kListener;
  using Message = v1::Listener;
};
template <>
struct StoredAs<SharedEndpointRecord> {
  static constexpr Kind kKind = Kind::kSharedEndpoint;
  using Message = v1::SharedEndpoint;
};
template <>
struct StoredAs<ReservationRecord> {
  static constexpr Kind kKind = Kind::kReservation;
  using Message = v1::Reservation;
};
template <>
struct StoredAs<ConnectorRecord> {
  static constexpr Kind kKind = Kind::kConnector;
  using Message = v1::Connector;
};
template <>
struct StoredAs<EndpointRecord> {
  static constexpr Kind kKind = Kind::kEndpoint;
  using Message = v1::Endpoint;
};
template <>
struct StoredAs<ConnectionRecord> {
  static constexpr Kind kKind = Kind::kConnection;
  using Message = v1::Connection;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_FORMAT_H_
