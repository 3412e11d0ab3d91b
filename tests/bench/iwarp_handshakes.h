// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_IWARP_HANDSHAKES_H_
#define TESTS_BENCH_IWARP_HANDSHAKES_H_

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/startup_frame.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"
#include "tests/bench/handshake_board.h"
#include "tests/bench/side_queue_pairs.h"
#include "tests/bench/worker.h"

namespace rdmabroker::bench {

// One side of user-space iWARP connections without a broker, in its own process: queue pairs, and one thread that waits
// for its sockets. The sides use TCP and the MPA handshake of dataplane/iwarp/wire, as brokers do with peers on their
// machine. An error ends the process.
class IwarpSide {
 public:
  virtual ~IwarpSide() = default;
  IwarpSide(const IwarpSide&) = delete;
  IwarpSide& operator=(const IwarpSide&) = delete;

  void Handle(const Command& command);

 protected:
  // A socket that is not its queue pair's yet.
  struct End {
    UniqueFd socket;
    bool asked = false;  // The request was sent, or has arrived.
    uint32_t index = 0;  // The connection's.
    std::vector<uint8_t> input;
    iwarp::StartupFrame request;
    iwarp::ConnectionState state;
  };

  explicit IwarpSide(HandshakeBoard& board);
  virtual void Run(bool at_once) = 0;
  // Something has happened to a descriptor.
  virtual void HandleReady(int fd) = 0;

  // Returns when this many connections of the current Run are established on this side.
  void ServeUntil(size_t established);
  void Watch(int fd, uint32_t events, int operation = EPOLL_CTL_ADD);
  // Makes the end its queue pair's.
  void Attach(int fd);

  HandshakeBoard& board_;
  SideQueuePairs queue_pairs_;
  std::unordered_map<int, End> ends_;  // By descriptor.

 private:
  UniqueFd epoll_;
  size_t established_ = 0;  // In this Run.
};

class IwarpActiveSide final : public IwarpSide {
 public:
  IwarpActiveSide(const IpAddress& ip, HandshakeBoard& board) : IwarpSide(board), ip_(ip) {}

 private:
  void Run(bool at_once) override;
  void HandleReady(int fd) override;
  void Connect(uint32_t index);
  void SendRequest(End& end);

  const IpAddress ip_;
};

class IwarpPassiveSide final : public IwarpSide {
 public:
  // Listens at `ip`, of IPv4, on a free port.
  IwarpPassiveSide(const IpAddress& ip, HandshakeBoard& board);

 private:
  void Run(bool at_once) override;
  void HandleReady(int fd) override;
  void AcceptAll();
  void TakeRequest(End& end);

  UniqueFd listener_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_IWARP_HANDSHAKES_H_
