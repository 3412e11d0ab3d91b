// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_HANDSHAKE_BOARD_H_
#define TESTS_BENCH_HANDSHAKE_BOARD_H_

#include <semaphore.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/bench/handshake_times.h"

namespace rdmabroker::bench {

// What the processes of one way to connect share, in memory of theirs. Connections are told apart by their index within
// a run; each side writes its own times.
struct HandshakeBoard {
  static constexpr size_t kMostConnections = 1000;

  // Made before the processes are; stays.
  static HandshakeBoard* Make();

  // The accepting side: connection `index` is established.
  void NotePassive(size_t index);
  // The active side: waits until one more connection is established on the accepting one. A minute at most.
  void AwaitPassive();

  std::array<HandshakeTimes, kMostConnections> times;
  std::array<int64_t, kMostConnections> creation;  // Nanoseconds that it took to make the active side's connector.
  std::atomic<uint16_t> port;                      // Where the accepting side listens.
  sem_t passive_established;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_HANDSHAKE_BOARD_H_
