// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_PEERS_RPING_LINK_H_
#define TESTS_PEERS_RPING_LINK_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/adapter.h"

namespace rdmabroker::peers {

// What the two ends of librdmacm's rping tell each other, each as one SEND of 16 bytes in network byte order: where the
// other may read or write, and how much.
struct RpingMessage {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t size = 0;
};

// A queue pair with a buffer of `size` bytes that the peer may read and write, and rping's ways to move data. Used by
// one thread. Waits at most half a minute for the peer.
class RpingLink {
 public:
  static absl::StatusOr<std::unique_ptr<RpingLink>> Make(Adapter& adapter, uint32_t size);
  ~RpingLink();
  RpingLink(const RpingLink&) = delete;
  RpingLink& operator=(const RpingLink&) = delete;

  QueuePair* queue_pair() const { return queue_pair_; }
  std::vector<uint8_t>& buffer() { return buffer_; }

  // This side's buffer, or with `empty` a message whose content nobody looks at.
  absl::Status Send(bool empty);
  absl::StatusOr<RpingMessage> Receive();
  // Between this side's buffer and the place that the peer named; `size` of it at most the buffer's.
  absl::Status Read(const RpingMessage& from);
  absl::Status Write(const RpingMessage& to);

 private:
  static constexpr size_t kMessageLength = 16;
  static constexpr size_t kReceives = 2;  // More than the peer ever sends ahead.

  explicit RpingLink(uint32_t size) : buffer_(size) {}
  absl::Status Open(Adapter& adapter);
  absl::Status PostReceive(size_t slot);
  absl::Status Check(const RpingMessage& message) const;
  // Takes results until one of the initiator's has come, or a message.
  absl::Status AwaitInitiator(NdkStatus posted);
  absl::Status AwaitResults();
  absl::Status TakeResults();

  std::vector<uint8_t> buffer_;
  std::array<uint8_t, (1 + kReceives)* kMessageLength> messages_ = {};  // One outgoing, then the receives' slots.
  ProtectionDomain* domain_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  MemoryRegion* message_region_ = nullptr;
  MemoryRegion* buffer_region_ = nullptr;
  std::deque<RpingMessage> inbox_;
  bool initiator_done_ = false;
  bool over_ = false;  // Receives were cancelled.
  std::binary_semaphore notified_{0};
};

}  // namespace rdmabroker::peers

#endif  // TESTS_PEERS_RPING_LINK_H_
