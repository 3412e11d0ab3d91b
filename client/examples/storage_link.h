// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_STORAGE_LINK_H_
#define CLIENT_EXAMPLES_STORAGE_LINK_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/examples/storage_protocol.h"

namespace rdmabroker::examples {

// One side's queue pair with all that it needs, and the storage protocol on it. Used by one thread; connect its queue
// pair by the client library. Nothing waits longer for the peer than a minute, and the time that a slow peer takes to
// move and sum the memory that was registered for it.
class StorageLink {
 public:
  static absl::StatusOr<std::unique_ptr<StorageLink>> Make(rdmabroker::Adapter& adapter);
  ~StorageLink();
  StorageLink(const StorageLink&) = delete;
  StorageLink& operator=(const StorageLink&) = delete;

  QueuePair* queue_pair() const { return queue_pair_; }

  absl::Status Send(const Message& message);
  // FAILED_PRECONDITION for a message of another kind.
  absl::StatusOr<Message> Receive(MessageKind kind);

  // Memory that the peer may use until the link is gone; `flags` say how.
  absl::StatusOr<MemoryRegion*> Register(std::span<uint8_t> memory, MrFlags flags);

  // Moves `local`, which `region` names, from (Read) or to (Write) the peer's memory, a piece at a time, and calls
  // `progress` with the bytes that are there.
  using Progress = std::function<void(uint64_t done)>;
  absl::Status Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                    const Progress& progress);
  absl::Status Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                     const Progress& progress);

  // The connection is over, as a DisconnectEvent says: waits end, with that reason. From any thread.
  void NoteDisconnect(NdkStatus status);

 private:
  explicit StorageLink(rdmabroker::Adapter& adapter) : adapter_(adapter) {}

  absl::Status Open();
  absl::Status PostReceive(size_t slot);
  // Takes results until `done`; receives go to the inbox, failures end it.
  absl::Status WaitUntil(const std::function<bool()>& done);
  absl::Status TakeResults();
  // What a post or result with this status comes to.
  absl::Status Check(const char* what, NdkStatus status);
  absl::Status DisconnectStatus() const;

  enum class Direction { kRead, kWrite };
  absl::Status Move(Direction direction, std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                    const Progress& progress);

  rdmabroker::Adapter& adapter_;
  ProtectionDomain* domain_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  MemoryRegion* message_region_ = nullptr;
  std::vector<MemoryRegion*> regions_;
  std::vector<uint8_t> messages_;  // One outgoing, then the receives' slots.
  std::deque<Message> inbox_;
  std::chrono::seconds patience_ = std::chrono::minutes(1);
  uint32_t sends_under_way_ = 0;
  uint32_t pieces_under_way_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;                  // Guarded by mutex_: the completion queue has something.
  std::optional<NdkStatus> disconnected_;  // Guarded by mutex_.
};

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_STORAGE_LINK_H_
