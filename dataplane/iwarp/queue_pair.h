// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_QUEUE_PAIR_H_
#define DATAPLANE_IWARP_QUEUE_PAIR_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "dataplane/adapter.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/iwarp/memory_table.h"
#include "dataplane/iwarp/receive_queue.h"
#include "dataplane/iwarp/receiver.h"
#include "dataplane/iwarp/socket_watch.h"
#include "dataplane/iwarp/transmitter.h"
#include "dataplane/pending_call.h"
#include "dataplane/tcp/peer_silence.h"
#include "dataplane/timers.h"

namespace rdmabroker::iwarp {

// A queue pair that runs DDP and RDMAP on a TCP socket.
//
// Locks, outermost first: a completion queue's list of queue pairs, the connection lock here, the transmitter's, then
// receive queues, completion queues, memory windows, memory regions, the socket's watch, the progress thread. Posts
// take only the transmitter's, or the receive queue's. Consumers' callbacks run on the progress thread with none of
// them.
class SoftwareQueuePair final : public DrivenQueuePair {
 public:
  SoftwareQueuePair(ProtectionDomain* domain, MemoryTable* memory, const QueuePairAttributes& attributes);

  NdkStatus Send(void* request_context, std::span<const Sge> sges, OpFlags flags) override;
  NdkStatus SendAndInvalidate(void* request_context, std::span<const Sge> sges, OpFlags flags,
                              RemoteToken token) override;
  NdkStatus Receive(void* request_context, std::span<const Sge> sges) override;
  NdkStatus Read(void* request_context, std::span<const Sge> sges, RemoteMemory source, OpFlags flags) override;
  NdkStatus Write(void* request_context, std::span<const Sge> sges, RemoteMemory target, OpFlags flags) override;
  NdkStatus Bind(void* request_context, MemoryRegion* region, MemoryWindow* window, void* address, size_t length,
                 OpFlags flags) override;
  NdkStatus FastRegister(void* request_context, MemoryRegion* region, std::span<void* const> pages,
                         size_t first_byte_offset, size_t length, uint64_t base_address, OpFlags flags) override;
  NdkStatus Invalidate(void* request_context, MemoryRegion* region, OpFlags flags) override;
  NdkStatus Invalidate(void* request_context, MemoryWindow* window, OpFlags flags) override;
  void Flush() override;
  NdkStatus Attach(Attachment attachment, ConnectionEndCallback on_end) override;
  NdkStatus Disconnect(std::chrono::milliseconds timeout, RequestCompletion completion) override;
  uint32_t number() const override { return 0; }
  const Adapter* adapter() const override { return receive_cq_->adapter(); }

  void Drive() override;
  void OnReady() override;
  void OnLeftToPollers() override { watch_.AwaitArm(); }
  void OnArm() override { watch_.Resume(); }
  uint64_t poll_count() const override { return receive_cq_->polls() + initiator_cq_->polls(); }
  uint32_t events() const override;
  bool notification_wanted() const override { return receive_cq_->armed() || initiator_cq_->armed(); }

 private:
  // kLingering: the connection has ended for the consumer; a Terminate message and the peer's end are still due.
  enum class Phase { kIdle, kConnected, kLingering, kEnded };

  void OnClose() override;
  void Dismantle() override;
  NdkStatus Post(const InitiatorPost& post);
  NdkStatus Adopt(Attachment attachment, ConnectionEndCallback on_end);
  // Whether a request may name the region or window.
  template <typename Object>
  bool Belongs(const Object* object) const {
    return object != nullptr && object->domain() == domain_.get();
  }
  void DriveLocked();
  void DriveConnected();
  void DriveLingering();
  void HandleReceived(Receiver::Outcome outcome);
  void PeerHasEnded();
  void CheckHalfOpenSocket();
  void StartKeepalive();
  // Listens whether the peer's host lives.
  void LookForPeer();
  void EndWaiting();
  void AdvanceDisconnect();
  void BreakForSocket(int error);
  void Break(const RequestFailure& failure, uint32_t provider_error);
  void Terminate(const TerminateMessage& message, const RequestFailure& failure);
  void EndLocally();
  void CloseSocket();
  void ReportEnd(const ConnectionEnd& end);
  void CompleteDisconnect(NdkStatus status);

  const ObjectReference<ProtectionDomain> domain_;
  const ObjectReference<SoftwareCompletionQueue> receive_cq_;
  const ObjectReference<SoftwareCompletionQueue> initiator_cq_;
  const ObjectReference<SoftwareSharedReceiveQueue> srq_;
  const std::chrono::seconds keepalive_;
  ReceiveQueue receive_queue_;
  Transmitter transmitter_;
  SocketWatch watch_;
  std::atomic<bool> alive_ = false;             // There is a socket to drive.
  std::atomic<bool> peer_ended_ = false;        // Its stream has ended.
  std::atomic<bool> receives_end_ = false;      // Receives that are posted now are cancelled at once.
  std::atomic<bool> receives_refused_ = false;  // Receives that are posted now are refused.

  std::mutex mutex_;  // The connection lock: guards what follows.
  Phase phase_ = Phase::kIdle;
  bool closed_ = false;
  bool said_goodbye_ = false;
  Receiver receiver_;
  tcp::PeerSilence silence_;
  UniqueFd socket_;
  ParentsAlone parents_socket_;
  ConnectionEndCallback on_end_;
  RequestCompletion disconnect_completion_;
  bool disconnecting_ = false;

  // What the progress thread calls, once each: a connection has one end, and may be disconnected once.
  ConnectionEnd end_;
  ConnectionEndCallback told_of_end_;
  PendingCall tell_end_{this, [this] { std::exchange(told_of_end_, nullptr)(end_); }};
  NdkStatus disconnect_status_ = NdkStatus::kSuccess;
  RequestCompletion disconnected_;
  PendingCall complete_disconnect_{this, [this] { std::exchange(disconnected_, nullptr)(disconnect_status_); }};
  Timer look_timer_{this, [this] { LookForPeer(); }};
  Timer deadline_{this, [this] { EndWaiting(); }};
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_QUEUE_PAIR_H_
