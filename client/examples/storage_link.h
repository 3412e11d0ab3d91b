// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_STORAGE_LINK_H_
#define CLIENT_EXAMPLES_STORAGE_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/examples/connection.h"
#include "client/examples/storage_protocol.h"

namespace rdmabroker::examples {

// The storage protocol on a connection. Used by one thread.
class StorageLink {
 public:
  static absl::StatusOr<std::unique_ptr<StorageLink>> Make(const std::shared_ptr<client::Adapter>& adapter);

  // To connect, or to accept with.
  Connection& connection() { return *connection_; }

  absl::Status Send(const Message& message);
  // FAILED_PRECONDITION for a message of another kind.
  absl::StatusOr<Message> Receive(MessageKind kind);

  // Moves `local`, which `region` names, from (Read) or to (Write) the peer's memory, a piece at a time, and calls
  // `progress` with the bytes that are there.
  using Progress = std::function<void(uint64_t done)>;
  absl::Status Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                    const Progress& progress);
  absl::Status Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                     const Progress& progress);

 private:
  StorageLink(std::unique_ptr<Connection> connection, uint32_t piece)
      : connection_(std::move(connection)), piece_(piece) {}

  using Transfer = absl::Status (Connection::*)(std::span<uint8_t>, const MemoryRegion&, RemoteMemory);
  absl::Status Move(Transfer transfer, std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                    const Progress& progress);

  const std::unique_ptr<Connection> connection_;
  const uint32_t piece_;  // Bytes of one read or write.
};

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_STORAGE_LINK_H_
