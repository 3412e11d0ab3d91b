// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_CONNECTION_H_
#define CLIENT_EXAMPLES_CONNECTION_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/blocking.h"
#include "client/connector.h"
#include "client/shared_endpoint.h"

namespace rdmabroker::examples {

// What a protocol asks of its connections.
struct ConnectionShape {
  uint32_t receives = 1;      // More messages than that the peer never sends ahead.
  uint32_t message_size = 1;  // Bytes of the longest message, either way.
  uint32_t transfers = 1;     // Reads and writes in flight.
  client::ReadLimits limits;
  std::chrono::seconds patience = std::chrono::minutes(1);  // For each thing that the peer is to do.
};

// A queue pair with all that it needs, the connection that the broker makes on it, and what two peers do over one:
// messages, each a SEND, and reads and writes of registered memory. Used by one thread. Nothing waits longer for the
// peer than the shape's patience, and the time that a slow peer takes to move and sum the memory registered for it.
class Connection {
 public:
  // Not connected yet; its receives are posted.
  static absl::StatusOr<std::unique_ptr<Connection>> Make(const std::shared_ptr<client::Adapter>& adapter,
                                                          const ConnectionShape& shape);
  // Disconnects, unless that has been done.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One of these, once; the last one's outcome by AwaitAccept. The second connects from a shared endpoint.
  absl::Status Connect(const SocketAddress& source, const SocketAddress& destination);
  absl::Status Connect(const std::shared_ptr<client::SharedEndpoint>& endpoint, const SocketAddress& destination);
  absl::Status Accept(std::shared_ptr<client::Connector> connector);
  absl::Status StartAccept(std::shared_ptr<client::Connector> connector);
  absl::Status AwaitAccept();

  // Ends when the peer has disconnected too.
  absl::Status Disconnect();
  // Until the peer has disconnected gracefully. What it sends meanwhile is received as ever.
  absl::Status AwaitDisconnect();

  // Ends when the message is out of this side's hands.
  absl::Status Send(std::span<const uint8_t> message);
  // The oldest message that has not been received yet.
  absl::StatusOr<std::vector<uint8_t>> Receive();
  // The same, for messages that are text.
  absl::Status SendText(std::string_view text);
  absl::StatusOr<std::string> ReceiveText();
  // Sends a text, which the peer is to send back.
  absl::Status ExpectEcho(const std::string& text);
  // Sends the peer's text back and waits for its disconnect: the text.
  absl::StatusOr<std::string> Echo();

  // Memory for transfers, which the peer may use as `flags` say, until this is gone.
  absl::StatusOr<MemoryRegion*> Register(std::span<uint8_t> memory, MrFlags flags);
  // A window for the peer's accesses, until this is gone.
  absl::StatusOr<MemoryWindow*> CreateWindow();
  // Posts a request to the queue pair, which counts as a transfer; `what` is its name in last words.
  absl::Status Start(const char* what, const std::function<NdkStatus(QueuePair&)>& post);
  // Start to move `local`, a part of what `region` names, from (Read) or to (Write) the peer's memory.
  absl::Status Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote);
  absl::Status Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote);
  // Until no more than that many are under way.
  absl::Status AwaitTransfers(uint32_t under_way);
  uint32_t transfers_under_way() const { return transfers_under_way_; }

  // How the handshake ended.
  const client::Outcome& handshake() const { return handshake_; }
  // The established connection's own.
  const client::Connector& connector() const { return *connector_; }

 private:
  Connection(const std::shared_ptr<client::Adapter>& adapter, const ConnectionShape& shape);

  absl::Status Open();
  absl::Status HandleConnected(client::Made<std::shared_ptr<client::Connector>> made);
  absl::Status PostReceive(size_t slot);
  client::DisconnectEventCallback DisconnectCallback();
  bool Disconnected();
  // Takes results until `done`; receives go to the inbox, failures end it.
  absl::Status WaitUntil(const std::function<bool()>& done);
  absl::Status TakeResults();
  absl::Status TakeResult(const ResultEx& result);
  // What a post or result with this status comes to.
  absl::Status Check(const char* what, NdkStatus status);
  absl::Status DisconnectStatus() const;

  const std::shared_ptr<client::Adapter> adapter_;
  const ConnectionShape shape_;
  std::chrono::seconds patience_;
  ProtectionDomain* domain_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  MemoryRegion* message_region_ = nullptr;
  std::vector<MemoryRegion*> regions_;
  std::vector<MemoryWindow*> windows_;
  std::shared_ptr<client::Connector> connector_;
  bool established_ = false;
  client::Outcome handshake_;

  std::vector<uint8_t> messages_;  // One outgoing, then the receives' slots.
  std::deque<std::vector<uint8_t>> inbox_;
  uint32_t sends_under_way_ = 0;
  uint32_t transfers_under_way_ = 0;
  bool receives_over_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::optional<client::Outcome> accepted_;
  bool notified_ = false;  // The completion queue has something.
  std::optional<client::DisconnectEvent> disconnected_;
};

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_CONNECTION_H_
