// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_STORAGE_PROTOCOL_H_
#define CLIENT_EXAMPLES_STORAGE_PROTOCOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/operation.h"

namespace rdmabroker::examples {

// What the storage server and its client say to each other, each as one SEND. The file itself travels by READ and
// WRITE.
//
//   server  kOffer   the file's size, where it can be read, and its SHA-256
//   client  kStore   it has been read; a copy of that size is to come back
//   server  kSpace   where it can be written
//   client  kStored  it has been written; its SHA-256
//   server  kVerdict digest of what arrived; size 1 if it is the file's, 0 if not
enum class MessageKind : uint32_t { kOffer = 1, kStore = 2, kSpace = 3, kStored = 4, kVerdict = 5 };

using Digest = std::array<uint8_t, 32>;

struct Message {
  MessageKind kind = MessageKind::kOffer;
  uint64_t size = 0;    // Bytes.
  RemoteMemory memory;  // Of the sender.
  Digest digest = {};   // SHA-256.
};

// kind, size, address, token, digest; numbers in network byte order.
inline constexpr size_t kMessageLength = 4 + 8 + 8 + 4 + 32;

void EncodeMessage(const Message& message, std::span<uint8_t, kMessageLength> bytes);
// Nothing for another length or an unknown kind: the peer is a stranger.
std::optional<Message> DecodeMessage(std::span<const uint8_t> bytes);

Digest Sha256(std::span<const uint8_t> bytes);

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_STORAGE_PROTOCOL_H_
