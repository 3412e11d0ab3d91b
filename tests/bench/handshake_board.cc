// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/handshake_board.h"

#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <new>

#include "tests/bench/require.h"

namespace rdmabroker::bench {

HandshakeBoard* HandshakeBoard::Make() {
  void* const memory =
      ::mmap(nullptr, sizeof(HandshakeBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Require(memory != MAP_FAILED, "mmap");
  auto* const board = new (memory) HandshakeBoard();
  Require(::sem_init(&board->passive_established, 1, 0) == 0, "sem_init");
  return board;
}

void HandshakeBoard::NotePassive(size_t index) {
  times[index].passive_established = NanosecondsNow();
  ::sem_post(&passive_established);
}

void HandshakeBoard::AwaitPassive() {
  timespec end = {};
  ::clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 60;
  while (::sem_timedwait(&passive_established, &end) != 0) {
    Require(errno == EINTR, "the accepting side establishes no connection");
  }
}

}  // namespace rdmabroker::bench
