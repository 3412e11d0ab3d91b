// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_TRANSMITTER_H_
#define DATAPLANE_IWARP_TRANSMITTER_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/iwarp/memory_objects.h"
#include "dataplane/iwarp/memory_table.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/segment.h"
#include "dataplane/operation.h"
#include "dataplane/ring.h"

namespace rdmabroker::iwarp {

// One request as a post hands it in. What it points to is only read during the call.
struct InitiatorPost {
  OperationType type = OperationType::kSend;
  Opcode opcode = Opcode::kSend;
  OpFlags flags = 0;
  void* context = nullptr;
  NdkStatus refusal = NdkStatus::kSuccess;  // Any other: it is known to be wrong already.
  std::span<const Sge> sges = {};
  RemoteMemory remote = {};        // Read, Write.
  RemoteToken invalidate = {};     // SendAndInvalidate.
  MemoryChange* change = nullptr;  // Bind, FastRegister, Invalidate; taken over.
  SoftwareMemoryRegion* region = nullptr;
  SoftwareMemoryWindow* window = nullptr;
};

struct TransmitterAttributes {
  uint32_t depth = 0;
  uint32_t max_sge = 0;
  uint32_t inline_data_size = 0;
  void* qp_context = nullptr;
  const QueuePair* queue_pair = nullptr;
  const void* domain = nullptr;
  MemoryTable* memory = nullptr;
  SoftwareCompletionQueue* cq = nullptr;
};

// How the request that the connection broke at ends; all behind it are cancelled.
struct RequestFailure {
  NdkStatus status = NdkStatus::kCancelled;
  uint32_t provider_error = 0;
};

// The sending half of a queue pair: the initiator queue, the responses to the peer's reads, and what of them is on its
// way into the socket. All functions may be called from any thread. Takes its own lock after the queue pair's
// connection lock and before those of completion queues and memory.
class Transmitter {
 public:
  explicit Transmitter(const TransmitterAttributes& attributes);
  ~Transmitter();

  // The inline status of the post. Throws std::bad_alloc where there is no memory for the request, and nothing has been
  // posted then. What else here finds no memory fails the socket, with ENOMEM.
  NdkStatus Post(const InitiatorPost& post);

  // Gets the memory that most connections need for batches; what needs more gets it as it goes. Before Start. May throw
  // std::bad_alloc.
  void MakeRoom(const ConnectionState& state);
  // The socket stays the caller's and open until Abort.
  void Start(int fd, const ConnectionState& state);
  // The peer's first FPDU has come: sends need not be held any longer.
  void ReleaseHold();
  // Sends what can be sent without waiting.
  void Transmit();

  // False: the peer has more reads in flight than it may.
  bool QueueReadResponse(const ReadRequest& request);

  // The oldest read whose response is not complete. Its fields stay good until CompleteRead or Abort.
  struct OutstandingRead {
    uint32_t sink_stag = 0;
    uint64_t sink_offset = 0;
    uint32_t length = 0;
    std::span<const Sge> sges;
  };
  std::optional<OutstandingRead> CurrentRead();
  void CompleteRead();
  // Its memory is gone; it waits for Abort.
  void FailRead();

  // Ends every request; nothing of the consumer's memory is used any more. `reject_posts`: later posts are refused,
  // else they are taken and cancelled. What is left of an FPDU that is partly sent stays to be sent.
  void Abort(const RequestFailure& failure, bool reject_posts);
  // After Abort: sends one more message.
  void SendTerminate(std::span<const uint8_t> payload);
  // Forgets the socket.
  void Stop();
  // Posts are refused from now on; what was posted goes its way.
  void RefusePosts();

  // Without the lock, for those who decide whether to come back.
  bool wants_write() const { return wants_write_.load(std::memory_order_seq_cst); }
  // The socket failed (errno), or 0.
  int socket_error() const { return socket_error_.load(std::memory_order_acquire); }
  // A request could not be carried out; it has its status and waits for Abort.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Nothing is left to be sent.
  bool drained();

 private:
  struct Request {
    OperationType type = OperationType::kSend;
    Opcode opcode = Opcode::kSend;
    OpFlags flags = 0;
    void* context = nullptr;
    RemoteMemory remote;
    RemoteToken invalidate = {};
    uint32_t length = 0;
    bool started = false;
    bool done = false;
    NdkStatus status = NdkStatus::kSuccess;
    uint32_t provider_error = 0;
    std::vector<Sge> sges;
    std::vector<uint8_t> inline_data;
    MemoryChange change;
    ObjectReference<SoftwareMemoryRegion> region;
    ObjectReference<SoftwareMemoryWindow> window;
  };
  enum class Gate { kUnconnected, kOpen, kCancelling, kRefusing };
  struct ReadResponse {
    ReadRequest request;
    uint32_t sent = 0;
  };

  NdkStatus CheckPost(const InitiatorPost& post) const;
  void FillRequest(const InitiatorPost& post, Request* request);
  void AcceptChange(const InitiatorPost& post, Request* request);
  void CancelChange(Request* request);
  void TransmitLocked();
  void TransmitBatches();
  bool SendBatch();
  bool FillBatch();
  bool EmitRequest();
  bool EmitReadRequest(Request* request);
  void EmitResponse();
  bool StartRequest(Request* request);
  bool CarryOutChange(Request* request);
  void FailRequest(Request* request, NdkStatus status, uint32_t provider_error);
  bool FindPayload(const Request& request, size_t length, bool copy);
  void EmitFpdu(const SegmentHeader& header, const std::vector<iovec>& payload, size_t length, bool copy);
  void EmitMarkedFpdu(const SegmentHeader& header, const std::vector<iovec>& payload);
  void AppendOwned(size_t length);
  bool BatchFull() const;
  void BatchSent();
  bool PinBatch();
  void ForgetBatch();
  void UnpinBatch();
  void Report(Request* request, NdkStatus status, uint32_t provider_error);
  void ReportDone();
  void OwnBatch();
  Request& At(uint64_t index) { return requests_[index % requests_.size()]; }

  const TransmitterAttributes attributes_;
  std::atomic<bool> wants_write_ = false;
  std::atomic<bool> failed_ = false;
  std::atomic<int> socket_error_ = 0;
  std::atomic<uint32_t> untaken_ = 0;  // ResultOwner's.

  std::mutex mutex_;  // Guards what follows.
  Gate gate_ = Gate::kUnconnected;
  int fd_ = -1;
  ConnectionState state_;
  MarkerInserter inserter_{0};
  bool hold_ = false;

  // Requests from head_ on are not reported, from next_ on not (wholly) put into a batch, to tail_ posted.
  std::vector<Request> requests_;
  uint64_t head_ = 0;
  uint64_t sent_ = 0;  // Up to here everything is in the socket.
  uint64_t next_ = 0;
  uint64_t tail_ = 0;
  uint32_t offset_ = 0;  // Bytes of request next_ that are in batches.
  Ring<uint64_t> reads_;
  Ring<ReadResponse> responses_;
  bool response_turn_ = true;

  // FPDUs on their way: pieces of the consumer's memory between pieces of `owned_`. The memory is pinned while the
  // batch is filled and sent; between two tries only its tokens are known.
  std::vector<iovec> batch_;
  std::vector<MemoryTable::Pin> batch_pins_;
  std::vector<uint32_t> batch_tokens_;
  size_t batch_position_ = 0;  // First piece not wholly sent; what was sent of it is cut off.
  size_t batch_bytes_ = 0;
  std::unique_ptr<uint8_t[]> owned_;
  size_t owned_length_ = 0;
  std::vector<uint8_t> marked_;  // Stands for all of these where the peer wants markers.
  PinnedPieces scratch_;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_TRANSMITTER_H_
