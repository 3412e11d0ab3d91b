// SPDX-License-Identifier: Apache-2.0

#include "client/examples/storage_link.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace rdmabroker::examples {
namespace {

constexpr uint32_t kReceives = 4;      // More than the peer ever sends ahead.
constexpr uint32_t kPieces = 8;        // Reads or writes in flight: enough to keep the wire busy.
constexpr uint32_t kPiece = 1 << 18;   // Bytes of one: progress shows even in a file of a few megabytes.
constexpr uint32_t kReadsServed = 16;  // And asked for: more than there are pieces.

}  // namespace

absl::StatusOr<std::unique_ptr<StorageLink>> StorageLink::Make(const std::shared_ptr<client::Adapter>& adapter) {
  auto connection = Connection::Make(adapter, {.receives = kReceives,
                                               .message_size = kMessageLength,
                                               .transfers = kPieces,
                                               .limits = {.inbound = kReadsServed, .outbound = kReadsServed}});
  if (!connection.ok()) return connection.status();
  return std::unique_ptr<StorageLink>(
      new StorageLink(*std::move(connection), std::min(kPiece, adapter->info().max_transfer_length)));
}

absl::Status StorageLink::Send(const Message& message) {
  std::array<uint8_t, kMessageLength> bytes;
  EncodeMessage(message, bytes);
  return connection_->Send(bytes);
}

absl::StatusOr<Message> StorageLink::Receive(MessageKind kind) {
  const auto bytes = connection_->Receive();
  if (!bytes.ok()) return bytes.status();
  const auto message = DecodeMessage(*bytes);
  if (!message) return absl::InvalidArgumentError("the peer sent something that is no message");
  if (message->kind == kind) return *message;
  return absl::FailedPreconditionError(absl::StrCat("the peer sent message kind ", static_cast<uint32_t>(message->kind),
                                                    ", not ", static_cast<uint32_t>(kind)));
}

absl::Status StorageLink::Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                               const Progress& progress) {
  return Move(&Connection::Read, local, region, remote, progress);
}

absl::Status StorageLink::Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote,
                                const Progress& progress) {
  return Move(&Connection::Write, local, region, remote, progress);
}

absl::Status StorageLink::Move(Transfer transfer, std::span<uint8_t> local, const MemoryRegion& region,
                               RemoteMemory remote, const Progress& progress) {
  for (size_t offset = 0; offset < local.size(); offset += piece_) {
    if (absl::Status status = connection_->AwaitTransfers(kPieces - 1); !status.ok()) return status;
    progress(offset - std::min<size_t>(offset, size_t{connection_->transfers_under_way()} * piece_));
    const auto piece = local.subspan(offset, std::min<size_t>(piece_, local.size() - offset));
    const RemoteMemory there{remote.address + offset, remote.token};
    if (absl::Status status = (*connection_.*transfer)(piece, region, there); !status.ok()) return status;
  }
  if (absl::Status status = connection_->AwaitTransfers(0); !status.ok()) return status;
  progress(local.size());
  return absl::OkStatus();
}

}  // namespace rdmabroker::examples
