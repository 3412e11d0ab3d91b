// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_LIBRARY_HANDSHAKES_H_
#define TESTS_BENCH_LIBRARY_HANDSHAKES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/session.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/bench/handshake_board.h"
#include "tests/bench/side_queue_pairs.h"
#include "tests/bench/worker.h"

namespace rdmabroker::bench {

// What both sides of handshakes through a broker have, each in a process of its own: a session of the client library
// and queue pairs. What comes of a connection is dealt with in the library's callbacks. What fails ends the process.
class LibrarySide {
 public:
  LibrarySide(const std::string& socket, const std::string& device, HandshakeBoard& board);
  LibrarySide(const LibrarySide&) = delete;
  LibrarySide& operator=(const LibrarySide&) = delete;

 protected:
  // Ends all connections and waits until nothing is left of them.
  void End();

  HandshakeBoard& board_;
  std::shared_ptr<client::Session> session_;
  std::shared_ptr<client::Adapter> adapter_;
  std::optional<SideQueuePairs> queue_pairs_;
  std::vector<std::shared_ptr<client::Connector>> connectors_;
  uint32_t established_ = 0;  // Of a run; in callbacks.
  std::binary_semaphore finished_{0};
};

class LibraryActiveSide final : LibrarySide {
 public:
  LibraryActiveSide(const std::string& socket, const std::string& device, const IpAddress& ip, HandshakeBoard& board)
      : LibrarySide(socket, device, board), ip_(ip) {}

  void Handle(const Command& command);

 private:
  void Prepare(uint32_t connections);
  void Run(bool at_once);
  void Connect(size_t index);
  void Complete(size_t index);
  void HandleEstablished(size_t index);

  const IpAddress ip_;
  bool at_once_ = false;
};

class LibraryPassiveSide final : LibrarySide {
 public:
  // Listens at `ip` on a free port.
  LibraryPassiveSide(const std::string& socket, const std::string& device, const IpAddress& ip, HandshakeBoard& board);

  void Handle(const Command& command);

 private:
  void Accept(const std::shared_ptr<client::Connector>& connector);

  std::shared_ptr<client::Listener> listener_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_LIBRARY_HANDSHAKES_H_
