// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_KERNEL_HANDSHAKES_H_
#define TESTS_BENCH_KERNEL_HANDSHAKES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "broker/core/fabric_messages.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/bench/handshake_times.h"

namespace rdmabroker::bench {

// One side's queue pair, as whoever connects it sees it.
struct HandshakeSide {
  uint32_t qp_number = 0;
  // Takes it through one transition. Not called where the device's driver does that.
  std::function<void(const QpAttributes&)> move;
};

struct HandshakePair {
  HandshakeSide active;
  HandshakeSide passive;
};

// Both sides of connections over one of the kernel's devices, made on its connection manager directly, by one thread
// that calls it and takes its events. What fails ends the process.
class KernelHandshakes {
 public:
  // Listens at `ip`, on a port that the kernel chooses. `three_way`: as on InfiniBand and RoCE; not on iWARP.
  KernelHandshakes(const IpAddress& ip, bool three_way);
  KernelHandshakes(const KernelHandshakes&) = delete;
  KernelHandshakes& operator=(const KernelHandshakes&) = delete;

  // Begins all at once, and returns when all are established.
  std::vector<HandshakeTimes> Run(std::span<const HandshakePair> pairs);
  // Ends all connections.
  void End();

 private:
  struct Connection {
    KernelId active{};
    KernelId passive{};
  };

  void Begin(size_t index);
  void Handle(const CmEvent& event);
  void HandlePassive(const CmEvent& event, size_t index);
  void Accept(const CmEvent& event);
  void Move(KernelId id, const HandshakeSide& side) const;

  const std::shared_ptr<const CmFile> file_;
  const bool three_way_;
  SocketAddress address_;
  std::span<const HandshakePair> pairs_;
  uint64_t base_ = 1;  // What the cookies of this Run begin with.
  std::vector<Connection> connections_;
  std::vector<Connection> former_;  // Of Runs before.
  std::vector<HandshakeTimes> times_;
  size_t established_ = 0;  // Sides.
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_KERNEL_HANDSHAKES_H_
