// SPDX-License-Identifier: Apache-2.0

// The other end of librdmacm's rping, over connections that a broker sets up.
//
// A round: the client names a buffer, which the server reads; the server says so; the client names a buffer, to which
// the server writes what it has read; the server says so.

#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "dataplane/memory.h"
#include "tests/peers/peer.h"

namespace rdmabroker::peers {
namespace {

// What the two ends tell each other, each as one SEND of 16 bytes in network byte order: where the other may read or
// write, and how much.
struct Place {
  RemoteMemory memory;
  uint32_t size = 0;
};
constexpr uint32_t kMessageLength = 8 + 4 + 4;

// rping asks for one read in flight each way.
constexpr examples::ConnectionShape kShape = {
    .receives = 2,  // More than it ever sends ahead.
    .message_size = kMessageLength,
    .limits = {.inbound = 1, .outbound = 1},
    .patience = kPatience,
};

// A connection's end with a buffer that the other may read and write.
class Link {
 public:
  Link(examples::Connection& connection, uint32_t size) : connection_(connection), buffer_(size) {}
  // The buffer goes before the connection does.
  ~Link() {
    if (region_ != nullptr) region_->Deregister();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  absl::Status Register() {
    const auto region = connection_.Register(buffer_, kMrAllowRemoteRead | kMrAllowRemoteWrite | kMrRdmaReadSink);
    if (region.ok()) region_ = *region;
    return region.status();
  }

  std::vector<uint8_t>& buffer() { return buffer_; }

  absl::Status NameBuffer() {
    return SendPlace(
        {{reinterpret_cast<uint64_t>(buffer_.data()), region_->remote_token()}, static_cast<uint32_t>(buffer_.size())});
  }
  // A message whose content nobody looks at.
  absl::Status SayDone() { return SendPlace({}); }

  absl::StatusOr<Place> Receive() {
    const auto bytes = connection_.Receive();
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() != kMessageLength) {
      return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes->size(), " bytes is not rping's"));
    }
    uint64_t address = 0;
    uint32_t key = 0;
    uint32_t size = 0;
    std::memcpy(&address, bytes->data(), sizeof address);
    std::memcpy(&key, bytes->data() + 8, sizeof key);
    std::memcpy(&size, bytes->data() + 12, sizeof size);
    return Place{{be64toh(address), RemoteToken{be32toh(key)}}, be32toh(size)};
  }

  // The bytes of the place that the other end names next; it must fit into the buffer.
  using Transfer = absl::Status (examples::Connection::*)(std::span<uint8_t>, const MemoryRegion&, RemoteMemory);
  absl::Status Move(Transfer transfer) {
    const auto place = Receive();
    if (!place.ok()) return place.status();
    if (place->size == 0 || place->size > buffer_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rping names ", place->size, " bytes; there is room for ", buffer_.size()));
    }
    const absl::Status started =
        (connection_.*transfer)(std::span(buffer_).first(place->size), *region_, place->memory);
    return started.ok() ? connection_.AwaitTransfers(0) : started;
  }

 private:
  absl::Status SendPlace(const Place& place) {
    const uint64_t address = htobe64(place.memory.address);
    const uint32_t key = htobe32(static_cast<uint32_t>(place.memory.token));
    const uint32_t size = htobe32(place.size);
    std::array<uint8_t, kMessageLength> bytes;
    std::memcpy(bytes.data(), &address, sizeof address);
    std::memcpy(bytes.data() + 8, &key, sizeof key);
    std::memcpy(bytes.data() + 12, &size, sizeof size);
    return connection_.Send(bytes);
  }

  examples::Connection& connection_;
  std::vector<uint8_t> buffer_;
  MemoryRegion* region_ = nullptr;
};

absl::Status ServeRound(Link& link) {
  absl::Status status = link.Move(&examples::Connection::Read);
  if (status.ok()) status = link.SayDone();
  if (status.ok()) status = link.Move(&examples::Connection::Write);
  if (status.ok()) status = link.SayDone();
  return status;
}

absl::Status PingRound(Link& link, uint32_t round) {
  auto& buffer = link.buffer();
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<uint8_t>('A' + (i + round) % 26);
  buffer.back() = 0;  // rping takes it for text.
  const auto sent = buffer;
  absl::Status status = link.NameBuffer();
  if (status.ok()) status = link.Receive().status();
  std::fill(buffer.begin(), buffer.end(), uint8_t{0});
  if (status.ok()) status = link.NameBuffer();
  if (status.ok()) status = link.Receive().status();
  if (!status.ok() || buffer == sent) return status;
  return absl::DataLossError(absl::StrCat("round ", round, ": other bytes came back"));
}

absl::Status Serve(const Task& task) {
  const auto connections = AcceptAll(task, kShape);
  if (!connections.ok()) return connections.status();
  for (const auto& connection : *connections) {
    Link link(*connection, task.size);
    absl::Status status = link.Register();
    for (uint32_t round = 0; round < task.count && status.ok(); ++round) status = ServeRound(link);
    // The client goes first: rping takes a disconnect that overtakes the last message's completion for a failure.
    if (status.ok()) status = connection->AwaitDisconnect();
    if (status.ok()) status = connection->Disconnect();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Ping(const Task& task) {
  const auto connections = ConnectAll(task, kShape);
  if (!connections.ok()) return connections.status();
  for (const auto& connection : *connections) {
    Link link(*connection, task.size);
    absl::Status status = link.Register();
    for (uint32_t round = 0; round < task.count && status.ok(); ++round) status = PingRound(link, round);
    if (status.ok()) status = connection->Disconnect();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::peers

int main(int argc, char** argv) {
  using namespace rdmabroker::peers;
  return Main(argc, argv, "rping", Serve, Ping);
}
