// SPDX-License-Identifier: Apache-2.0

// A key-value store that is read one-sided. The server binds a memory window over its table and hands the window's
// token out; the client then finds values by RDMA READ alone, and the server's processor has no part in it. Once the
// server invalidates the window, the client can read no more, while the table stays registered for others.

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "client/examples/roles.h"

namespace rdmabroker::examples {
namespace {

// A place of the table; an empty key is none. Both end at their first zero.
struct Slot {
  char key[24];
  char value[40];
};
constexpr int kKeys = 32;
constexpr size_t kSlots = 64;  // Some empty ones keep searches short.
using Table = std::array<Slot, kSlots>;

// The server says first where the table is, "ADDRESS TOKEN"; these two follow.
constexpr char kEnough[] = "enough";    // From the client: it has read what it wanted.
constexpr char kRevoked[] = "revoked";  // From the server.

constexpr ConnectionShape kShape = {.receives = 2, .message_size = 40, .limits = {.inbound = 1, .outbound = 1}};

std::string Key(int i) { return absl::StrCat("key ", i); }
std::string Value(int i) { return absl::StrCat("the value of key ", i); }

// Where a key's search begins: FNV-1a.
size_t FirstSlot(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash % kSlots;
}

void Fill(Table& table) {
  for (int i = 0; i < kKeys; ++i) {
    size_t at = FirstSlot(Key(i));
    while (table[at].key[0] != 0) at = (at + 1) % kSlots;
    std::strncpy(table[at].key, Key(i).c_str(), sizeof table[at].key - 1);
    std::strncpy(table[at].value, Value(i).c_str(), sizeof table[at].value - 1);
  }
}

// One client, from the moment that it is accepted. Where the device has no windows, the region itself is given out and
// taken back: then nobody else could share it.
absl::Status ServeOne(Connection& connection, Table& table, bool by_window) {
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(table.data()), sizeof table);
  const auto region = connection.Register(bytes, by_window ? kMrAllowLocalRead : kMrAllowRemoteRead);
  if (!region.ok()) return region.status();
  const auto window = by_window ? connection.CreateWindow() : nullptr;
  if (!window.ok()) return window.status();
  absl::Status status;
  if (by_window) {
    // What is sent after the bind arrives after it.
    status = connection.Start("bind", [&](QueuePair& queue_pair) {
      return queue_pair.Bind(nullptr, *region, *window, table.data(), sizeof table, kOpAllowRemoteRead);
    });
  }
  if (!status.ok()) return status;
  const RemoteToken token = by_window ? (*window)->remote_token() : (*region)->remote_token();
  status =
      connection.SendText(absl::StrCat(reinterpret_cast<uint64_t>(table.data()), " ", static_cast<uint32_t>(token)));
  if (status.ok()) status = connection.ReceiveText().status();
  if (!status.ok()) return status;

  if (by_window) {
    status = connection.Start("invalidate",
                              [&](QueuePair& queue_pair) { return queue_pair.Invalidate(nullptr, *window, 0); });
    if (status.ok()) status = connection.AwaitTransfers(0);
  } else {
    status = Report("deregister", (*region)->Deregister());
  }
  if (status.ok()) status = connection.SendText(kRevoked);
  if (!status.ok()) return status;
  // The client's next read is refused, and the connection ends by it: how that looks from here depends on the device.
  connection.AwaitDisconnect().IgnoreError();
  std::cout << "server: revoked by " << (by_window ? "Invalidate" : "Deregister") << std::endl;
  return absl::OkStatus();
}

absl::Status Serve(const Task& task) {
  Table table = {};
  Fill(table);
  const bool by_window = task.adapter->info().max_window_size >= sizeof table;
  std::cout << "server: "
            << (by_window ? "a memory window for each client"
                          : "no memory windows on this device "
                            "(max_window_size): a memory region for each client")
            << std::endl;
  const auto listener = Listen(task);
  if (!listener.ok()) return listener.status();
  for (uint32_t i = 0; i < task.count; ++i) {
    auto connection = Connection::Make(task.adapter, kShape);
    if (!connection.ok()) return connection.status();
    auto [arrived, connector] = (*listener)->Next();
    if (!arrived.ok()) return Report("listener", arrived);
    absl::Status status = (*connection)->Accept(std::move(connector));
    if (status.ok()) status = ServeOne(**connection, table, by_window);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Reads places from the server's memory until the key's, or an empty one.
absl::StatusOr<std::string> Find(Connection& connection, const RemoteMemory& table, const MemoryRegion& region,
                                 Slot& slot, const std::string& key) {
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&slot), sizeof slot);
  size_t at = FirstSlot(key);
  for (size_t reads = 0; reads < kSlots; ++reads, at = (at + 1) % kSlots) {
    absl::Status read = connection.Read(bytes, region, {table.address + at * sizeof slot, table.token});
    if (read.ok()) read = connection.AwaitTransfers(0);
    if (!read.ok()) return read;
    if (std::string(slot.key, strnlen(slot.key, sizeof slot.key)) == key) {
      return std::string(slot.value, strnlen(slot.value, sizeof slot.value));
    }
    if (slot.key[0] == 0) break;
  }
  return absl::NotFoundError(absl::StrCat(key, " is not in the table"));
}

absl::Status ReadAll(Connection& connection, const RemoteMemory& table, const MemoryRegion& region, Slot& slot,
                     int keys) {
  for (int i = 0; i < keys; ++i) {
    const auto value = Find(connection, table, region, slot, Key(i));
    if (!value.ok()) return value.status();
    if (*value != Value(i)) return absl::DataLossError(absl::StrCat(Key(i), " has the value ", *value));
  }
  const auto nothing = Find(connection, table, region, slot, "no such key");
  if (!absl::IsNotFound(nothing.status())) return absl::DataLossError("a key was found that nobody has put there");
  std::cout << "client: " << keys << " values read, and one key not found" << std::endl;
  return absl::OkStatus();
}

absl::Status Read(const Task& task) {
  Slot slot;  // Before the connection, which has it registered.
  auto made = Connection::Make(task.adapter, kShape);
  if (!made.ok()) return made.status();
  Connection& connection = **made;
  if (absl::Status status = connection.Connect(task.address, task.servers.front()); !status.ok()) return status;
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&slot), sizeof slot);
  const auto region = connection.Register(bytes, kMrAllowLocalWrite | kMrRdmaReadSink);
  if (!region.ok()) return region.status();
  const auto offer = connection.ReceiveText();
  if (!offer.ok()) return offer.status();
  uint64_t address = 0;
  uint32_t token = 0;
  if (!(std::istringstream(*offer) >> address >> token)) return absl::InvalidArgumentError("no \"ADDRESS TOKEN\"");
  const RemoteMemory table{address, RemoteToken{token}};
  absl::Status status =
      ReadAll(connection, table, **region, slot, static_cast<int>(std::min<int64_t>(task.count, kKeys)));
  if (status.ok()) status = connection.SendText(kEnough);
  if (status.ok()) status = connection.ReceiveText().status();
  if (!status.ok()) return status;
  const auto again = Find(connection, table, **region, slot, Key(0));
  if (again.ok()) return absl::InternalError("the table can still be read, although the server has closed it");
  std::cout << "client: revoked, and the next read ends with: " << again.status().message() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  using namespace rdmabroker::examples;
  return Main(argc, argv, "A key-value store that clients read by RDMA READ, for as long as the server lets them.",
              {Serve, "End after so many clients"}, {Read, "How many of the keys to read", kKeys});
}
