// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_HOSTILE_PEER_FOR_TEST_H_
#define DATAPLANE_IWARP_HOSTILE_PEER_FOR_TEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/watched_memory_for_test.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/segment.h"
#include "tests/fuzz.h"

namespace rdmabroker::iwarp {

// What a peer knows, or may guess, of the other side.
struct PeersView {
  WatchedMemory* writable = nullptr;
  WatchedMemory* readable = nullptr;
  WatchedMemory* sink = nullptr;               // Of the other side's reads.
  std::array<WatchedMemory*, 7> regions = {};  // These, and what it may not touch.
  MemoryWindow* window = nullptr;
  WatchedMemory* bound = nullptr;  // To which the window was bound last.
};

// Makes the FPDUs of a fuzz target's input. Each is right in all that the input does not name as wrong, so that few
// bytes say much. Its payload is of bytes that no memory is filled with.
class HostilePeer {
 public:
  // Both must outlive it.
  HostilePeer(FuzzInput* input, const PeersView* sees) : input_(input), sees_(*sees) {}

  void Start(const ConnectionState& of_other_side) {
    crc_ = of_other_side.crc;
    empty_response_due_ = of_other_side.read_response_due;
  }
  std::vector<uint8_t> NextFpdu();
  // The other side has asked for so many bytes, which go there in its sink.
  void OweResponse(size_t offset, size_t length) { reads_.emplace_back(offset, length); }

  // It sends something else than FPDUs from here on, or nothing more.
  void StopSendingFpdus() { sends_fpdus_ = false; }
  // Whether it has sent something that ends a connection, whatever was before.
  bool doomed() const { return doomed_; }

 private:
  // Where it wants to write or read.
  struct Target {
    uint32_t stag = 0;
    WatchedMemory* memory = nullptr;  // Null: at address 0.
  };

  std::vector<uint8_t> FillTagged(uint8_t wrong, SegmentHeader* header);
  std::vector<uint8_t> FillUntagged(uint8_t wrong, SegmentHeader* header);
  std::vector<uint8_t> SomePayload(size_t length) const;
  Target AnyTarget();
  uint64_t SomeDifference() { return static_cast<uint64_t>(static_cast<int16_t>(input_->Whole<uint16_t>())); }
  void Doom() { doomed_ |= sends_fpdus_; }

  FuzzInput* const input_;
  const PeersView& sees_;
  bool crc_ = true;
  // What would be right.
  std::array<uint32_t, kQueueCount> next_msn_ = {1, 1, 1};
  uint32_t message_offset_ = 0;
  std::deque<std::pair<size_t, size_t>> reads_;
  bool empty_response_due_ = false;  // To a read that was the ready-to-receive message.
  uint32_t fpdus_ = 0;
  bool sends_fpdus_ = true;
  bool doomed_ = false;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_HOSTILE_PEER_FOR_TEST_H_
