// SPDX-License-Identifier: Apache-2.0

#include "broker/store/format.h"

#include <endian.h>
#include <isa-l/crc64.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace rdmabroker::store {

KeyBytes ToBytes(const Key& key) {
  KeyBytes bytes;
  bytes[0] = static_cast<char>(key.kind);
  const uint64_t id = ::htobe64(key.id);
  const uint64_t number = ::htobe64(key.number);
  std::memcpy(&bytes[1], &id, sizeof id);
  std::memcpy(&bytes[9], &number, sizeof number);
  return bytes;
}

std::optional<Key> KeyFromBytes(std::string_view bytes) {
  if (bytes.size() != std::tuple_size_v<KeyBytes>) return std::nullopt;
  const auto kind = static_cast<uint8_t>(bytes[0]);
  if (kind > static_cast<uint8_t>(kLastKind)) return std::nullopt;
  uint64_t id = 0;
  uint64_t number = 0;
  std::memcpy(&id, &bytes[1], sizeof id);
  std::memcpy(&number, &bytes[9], sizeof number);
  return Key{static_cast<Kind>(kind), ::be64toh(id), ::be64toh(number)};
}

std::string ToString(const Key& key) {
  static constexpr const char* kNames[] = {"the header",
                                           "the counters",
                                           "device",
                                           "session",
                                           "adapter",
                                           "listener",
                                           "shared endpoint",
                                           "reservation",
                                           "connector",
                                           "endpoint",
                                           "connection",
                                           "answer",
                                           "event",
                                           "the fabric's record of endpoint",
                                           "the fabric's record of connection"};
  static_assert(std::size(kNames) == static_cast<size_t>(kLastKind) + 1);
  const char* name = kNames[static_cast<size_t>(key.kind)];
  if (key.kind <= Kind::kCounters) return name;
  const bool of_session = key.kind == Kind::kAnswer || key.kind == Kind::kEvent;
  return of_session ? absl::StrCat(name, " ", key.number, " of session ", key.id) : absl::StrCat(name, " ", key.id);
}

uint64_t ChecksumOf(std::string_view key, std::string_view message) {
  const auto add = [](uint64_t checksum, std::string_view bytes) {
    return ::crc64_ecma_refl(checksum, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  };
  return add(add(0, key), message);
}

void PutChecksum(uint64_t checksum, char* to) {
  const uint64_t bytes = ::htole64(checksum);
  std::memcpy(to, &bytes, sizeof bytes);
}

uint64_t GetChecksum(const char* from) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return ::le64toh(bytes);
}

}  // namespace rdmabroker::store
