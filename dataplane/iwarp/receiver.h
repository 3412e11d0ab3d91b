// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_RECEIVER_H_
#define DATAPLANE_IWARP_RECEIVER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/iwarp/memory_table.h"
#include "dataplane/iwarp/receive_queue.h"
#include "dataplane/iwarp/transmitter.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/fpdu_decoder.h"
#include "dataplane/iwarp/wire/terminate.h"

namespace rdmabroker::iwarp {

struct ReceiverAttributes {
  void* qp_context = nullptr;
  const QueuePair* queue_pair = nullptr;
  const void* domain = nullptr;
  MemoryTable* memory = nullptr;
  SoftwareCompletionQueue* cq = nullptr;
  ReceiveQueue* queue = nullptr;  // One of the two.
  SoftwareSharedReceiveQueue* srq = nullptr;
  Transmitter* transmitter = nullptr;
};

// The receiving half of a queue pair: takes the peer's stream apart, checks all that the peer claims, and puts payload
// where it belongs, without a CRC large payload straight from the socket. Guarded by the queue pair's connection lock.
class Receiver {
 public:
  explicit Receiver(const ReceiverAttributes& attributes) : attributes_(attributes) {}

  void Start(const ConnectionState& state);

  enum class Outcome {
    kIdle,        // The socket has no more.
    kMore,        // It may have more; others have their turn.
    kEnd,         // The stream ended between FPDUs.
    kBroken,      // It ended within one, or the socket failed: socket_error().
    kViolation,   // The peer broke the rules: violation().
    kTerminated,  // The peer says that this side did: terminated().
  };
  Outcome Drive(int fd);

  int socket_error() const { return socket_error_; }
  const TerminateMessage& violation() const { return violation_; }
  const TerminateMessage& terminated() const { return terminated_; }

  // Ends all receives that are the queue pair's own: with kCancelled, except one that has a failure of its own.
  void CancelReceives();

 private:
  struct Message {  // A send that is coming in.
    bool active = false;
    ReceiveRequest request;
    uint64_t capacity = 0;
    uint32_t received = 0;
    Opcode opcode = Opcode::kSend;
    uint32_t invalidate_stag = 0;
    NdkStatus status = NdkStatus::kCancelled;  // How it ends if the connection does.
  };

  bool TakeStaged();
  bool BeginSegment();
  bool BeginWrite();
  bool BeginReadResponse();
  bool BeginSend();
  bool BeginMessage();
  bool EndSegment();
  bool EndSend();
  bool EndReadRequest();
  // Finds the places of the payload that comes next, at most `most` bytes. They are looked up each time: the memory may
  // go while a message comes in. targets_ has to be cleared before anything else happens.
  bool FindTargets(size_t most);
  bool FindOwnTargets(size_t length, size_t done);
  // Whether the peer owes more: an end of the stream is none of the connection's then.
  bool WithinMessage();
  bool Violate(TerminateCause cause, std::span<const uint8_t> read_request = {});
  std::optional<ssize_t> Read(int fd, bool* full);
  ssize_t ReadInto(int fd, bool* full);
  void Complete(NdkStatus status, uint32_t provider_error);

  const ReceiverAttributes attributes_;
  std::optional<FpduDecoder> decoder_;
  std::array<uint32_t, kQueueCount> next_msn_ = {1, 1, 1};
  bool read_response_due_ = false;
  bool first_fpdu_seen_ = false;
  Message message_;
  std::optional<Transmitter::OutstandingRead> read_;  // The one whose response is coming in.
  uint32_t read_received_ = 0;
  std::array<uint8_t, kMaxTerminateLength> control_ = {};  // Payload of a read request or Terminate.
  bool places_directly_ = false;
  std::unique_ptr<uint8_t[]> staged_;
  size_t staged_size_ = 0;
  size_t staged_begin_ = 0;
  size_t staged_end_ = 0;
  PinnedPieces targets_;
  bool within_write_ = false;
  int socket_error_ = 0;
  bool got_terminate_ = false;
  TerminateMessage violation_;
  TerminateMessage terminated_;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_RECEIVER_H_
