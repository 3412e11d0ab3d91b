// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_PACKETS_H_
#define TESTS_SURVIVE_PACKETS_H_

#include <boost/pfr.hpp>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "broker/core/ids.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The messages of fabric_messages.h as bytes, for two processes of one test: of the same build, so that they need no
// version, and trusted, so that they need no check.

class PacketWriter {
 public:
  void Carry(void* value, size_t size) { bytes.append(static_cast<const char*>(value), size); }
  std::string bytes;
};

class PacketReader {
 public:
  explicit PacketReader(std::string_view bytes) : rest_(bytes) {}
  void Carry(void* value, size_t size) {
    std::memcpy(value, rest_.data(), size);
    rest_.remove_prefix(size);
  }

 private:
  std::string_view rest_;
};

template <typename Packet, typename Kind>
void Carry(Packet& packet, Id<Kind>& id);
template <typename Packet, typename Value>
void Carry(Packet& packet, std::optional<Value>& optional);
template <typename Packet, typename... Alternatives>
void Carry(Packet& packet, std::variant<Alternatives...>& variant);

// A number, what is derived from a variant, a sequence, or a plain struct.
template <typename Packet, typename Value>
void Carry(Packet& packet, Value& value) {
  if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>) {
    packet.Carry(&value, sizeof value);
  } else if constexpr (requires { typename Value::variant; }) {
    Carry(packet, static_cast<typename Value::variant&>(value));
  } else if constexpr (requires { value.begin(); }) {
    size_t size = value.size();
    Carry(packet, size);
    if constexpr (requires { value.resize(size); }) value.resize(size);
    for (auto& element : value) Carry(packet, element);
  } else {
    boost::pfr::for_each_field(value, [&packet](auto& field) { Carry(packet, field); });
  }
}

template <typename Packet, typename Kind>
void Carry(Packet& packet, Id<Kind>& id) {
  uint64_t value = id.value();
  Carry(packet, value);
  id = Id<Kind>(value);
}

template <typename Packet, typename Value>
void Carry(Packet& packet, std::optional<Value>& optional) {
  bool there = optional.has_value();
  Carry(packet, there);
  if (there && !optional) optional.emplace();
  if (there) Carry(packet, *optional);
}

template <typename Packet, typename... Alternatives>
void Carry(Packet& packet, std::variant<Alternatives...>& variant) {
  size_t index = variant.index();
  Carry(packet, index);
  size_t candidate = 0;
  const bool there = variant.index() == index;
  ((candidate++ == index && !there ? void(variant.template emplace<Alternatives>()) : void()), ...);
  std::visit([&packet](auto& alternative) { Carry(packet, alternative); }, variant);
}

template <typename Value>
std::string Encode(Value value) {
  PacketWriter packet;
  Carry(packet, value);
  return std::move(packet.bytes);
}

template <typename Value>
Value Decode(std::string_view bytes) {
  PacketReader packet(bytes);
  Value value;
  Carry(packet, value);
  return value;
}

struct ReceivedPacket {
  std::string bytes;  // Empty at the end, or where nothing waits.
  UniqueFd descriptor;
};

// Of a Unix socket of type SOCK_SEQPACKET. `flags` are those of recvmsg(2).
ReceivedPacket ReceivePacket(int socket, int flags = 0);

// Such sockets; none where the kernel has none or nobody listens.
UniqueFd ListenAt(const std::string& path);
UniqueFd ConnectTo(const std::string& path);

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_PACKETS_H_
