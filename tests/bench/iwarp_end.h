// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_IWARP_END_H_
#define TESTS_BENCH_IWARP_END_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::bench {

// One end of a user-space iWARP connection: an adapter with one queue pair and one registered buffer, after the MPA
// handshake of dataplane/iwarp/wire on the socket. The handshake's private data tells the initiator where the
// responder's buffer is. What fails ends the process.
class IwarpEnd {
 public:
  // Posts the first `receives` receives of `receive_length` bytes before the peer can send.
  IwarpEnd(UniqueFd socket, iwarp::Role role, bool crc, std::span<uint8_t> buffer, int receives,
           uint32_t receive_length);
  // Ends without ceremony: the process ends next.
  ~IwarpEnd() = default;
  IwarpEnd(const IwarpEnd&) = delete;
  IwarpEnd& operator=(const IwarpEnd&) = delete;

  void PostWrite(uint32_t length);
  void PostSend(uint32_t length);
  void PostReceive(uint32_t length);
  // Polls until results of this kind have come so often; all of them, and those of other kinds before, are taken.
  void Await(OperationType type, int count);

 private:
  Sge Bytes(uint32_t length) const;

  const std::span<uint8_t> buffer_;
  MemoryRegion* region_ = nullptr;
  CompletionQueue* cq_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  RemoteMemory peer_;
  int writes_ = 0, sends_ = 0, receives_ = 0;  // Results that nobody has awaited yet.
};

// Requests in flight at a time. Enough that the sender never waits for its own completions.
inline constexpr int kWindow = 16;

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_IWARP_END_H_
