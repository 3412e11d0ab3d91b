// SPDX-License-Identifier: Apache-2.0

#include "client/examples/storage_protocol.h"

#include <endian.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

namespace rdmabroker::examples {
namespace {

template <typename Number>
uint8_t* Put(uint8_t* at, Number number) {
  std::memcpy(at, &number, sizeof number);
  return at + sizeof number;
}

template <typename Number>
const uint8_t* Take(const uint8_t* at, Number* number) {
  std::memcpy(number, at, sizeof *number);
  return at + sizeof *number;
}

}  // namespace

void EncodeMessage(const Message& message, std::span<uint8_t, kMessageLength> bytes) {
  uint8_t* at = Put(bytes.data(), htobe32(static_cast<uint32_t>(message.kind)));
  at = Put(at, htobe64(message.size));
  at = Put(at, htobe64(message.memory.address));
  at = Put(at, htobe32(static_cast<uint32_t>(message.memory.token)));
  std::copy(message.digest.begin(), message.digest.end(), at);
}

std::optional<Message> DecodeMessage(std::span<const uint8_t> bytes) {
  if (bytes.size() != kMessageLength) return std::nullopt;
  uint32_t kind = 0;
  uint64_t size = 0;
  uint64_t address = 0;
  uint32_t token = 0;
  const uint8_t* at = Take(bytes.data(), &kind);
  at = Take(at, &size);
  at = Take(at, &address);
  at = Take(at, &token);
  Message message;
  message.kind = static_cast<MessageKind>(be32toh(kind));
  if (message.kind < MessageKind::kOffer || message.kind > MessageKind::kVerdict) return std::nullopt;
  message.size = be64toh(size);
  message.memory = {be64toh(address), static_cast<RemoteToken>(be32toh(token))};
  std::copy_n(at, message.digest.size(), message.digest.begin());
  return message;
}

Digest Sha256(std::span<const uint8_t> bytes) {
  Digest digest = {};
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr);
  return digest;
}

}  // namespace rdmabroker::examples
