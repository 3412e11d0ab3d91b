// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_QUEUE_PAIR_H_
#define DATAPLANE_VERBS_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/dropped_references.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/pending_call.h"
#include "dataplane/tcp/peer_silence.h"
#include "dataplane/timers.h"
#include "dataplane/verbs/adapter_thread.h"
#include "dataplane/verbs/completion_queue.h"
#include "dataplane/verbs/connection_id_search.h"
#include "dataplane/verbs/memory_objects.h"
#include "dataplane/verbs/protection_domain.h"
#include "dataplane/verbs/request_ring.h"
#include "dataplane/verbs/send_chain.h"
#include "dataplane/verbs/shared_receive_queue.h"

namespace rdmabroker::verbs {

// A queue pair of the hardware's.
//
// Locks, outermost first: a completion queue's, the two here (together only by std::scoped_lock), then the domain's, a
// window's, a region's or a shared receive queue's. Consumers' callbacks run on the adapter's thread with none of them.
class VerbsQueuePair final : public QueuePair, public EventTarget {
 public:
  VerbsQueuePair(VerbsProtectionDomain* domain, const QueuePairAttributes& attributes);
  // Once, before anything else. What fails can only be closed.
  NdkStatus Make();

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
  void WatchAlone() override { alone_ = true; }
  NdkStatus Attach(Attachment attachment, ConnectionEndCallback on_end) override;
  NdkStatus Disconnect(std::chrono::milliseconds timeout, RequestCompletion completion) override;
  uint32_t number() const override { return number_; }
  const Adapter* adapter() const override { return domain_->adapter(); }

  void OnAsyncEvent(ibv_event_type type) override;
  void OnFailure(const EventTarget& failed) override;
  DataObject* data_object() override { return this; }

  // For its completion queues, under their lock; what each finds is added to `queue`.
  void HandleCompletion(const ibv_wc& completion, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void TakeEnded(VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void CancelBefore(uint64_t initiator_end, uint64_t receive_end, VerbsCompletionQueue* queue,
                    DroppedReferences* dropped);
  // The connection is dead, if there was one that the local side has not ended. Its end is told, once, unless that is
  // left to the broker. Any locks but a queue pair's.
  void Break(uint32_t provider_error, bool tells = true);

 private:
  enum class Phase {
    kIdle,       // RESET, or INIT.
    kMoving,     // Beyond INIT; the connection is not known to be established.
    kConnected,  //
    kBroken,     // Not by the local side. Requests are accepted, and cancelled.
    kEnded,      // By the local side.
  };

  struct InitiatorPost {
    OperationType type = OperationType::kSend;
    ibv_wr_opcode opcode = IBV_WR_SEND;
    OpFlags flags = 0;
    void* context = nullptr;
    NdkStatus refusal = NdkStatus::kSuccess;  // Any other: it is known to be wrong already.
    std::span<const Sge> sges;
    RemoteMemory remote;
    RemoteToken invalidate = {};
    VerbsMemoryWindow* window = nullptr;  // Bind, Invalidate.
    VerbsMemoryRegion* region = nullptr;  // Bind.
    void* address = nullptr;
    size_t length = 0;
  };

  // What a request does to a window when it is carried out.
  struct WindowChange {
    uint32_t key = 0;
    ObjectReference<VerbsMemoryWindow> window;  // None: there is no change.
    ObjectReference<VerbsMemoryRegion> region;  // None: invalidates.
    bool took_window = false;                   // It was nobody's before.
  };

  void OnClose() override;
  void Dismantle() override;

  // queue_pair.cc: posts. What follows holds the initiator lock, up to the next comment.
  NdkStatus Post(const InitiatorPost& post);
  bool Crowded(const InitiatorPost& post) const;
  NdkStatus Check(const InitiatorPost& post) const;
  NdkStatus ChooseSignal(const InitiatorPost& post, Signal* signal);
  NdkStatus Enqueue(const InitiatorPost& post, size_t* own);
  NdkStatus EnqueueBind(const InitiatorPost& post, Signal signal, size_t* own);
  NdkStatus EnqueueInvalidate(const InitiatorPost& post, Signal signal, size_t* own);
  ibv_send_wr& Append(const InitiatorPost& post, Signal signal, bool internal);
  NdkStatus MakeRoomForChanges();
  WindowChange& AddChange(VerbsMemoryWindow* window, VerbsMemoryRegion* region, uint32_t key);
  // Nothing where the request has none.
  WindowChange TakeChange(uint64_t sequence);
  NdkStatus PostChain(size_t own);
  void HandlePosted(uint64_t first, uint64_t end);
  void TakeBack(size_t count);
  void EndChain();

  // queue_pair_completions.cc.
  void HandleSent(const ibv_wc& completion, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void HandleLast(VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void HandleReceived(const ibv_wc& completion, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  static void ReturnPlace(const PostedRequest& request, VerbsCompletionQueue* queue);
  // With the ring's lock: take out the requests that have ended, and report them without it.
  void FinishSent(std::unique_lock<std::mutex> lock, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void FinishReceived(std::unique_lock<std::mutex> lock, VerbsCompletionQueue* queue);
  // With the initiator lock, as the next two.
  size_t TakeReported(std::span<FinishedRequest> reported, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void Settle(const FinishedRequest& finished, VerbsCompletionQueue* queue, DroppedReferences* dropped);
  void ApplyChange(WindowChange change, NdkStatus status, DroppedReferences* dropped);
  void Report(const FinishedRequest& finished, VerbsCompletionQueue* queue) const;
  void NoteInvalidation(const ibv_wc& completion, ResultEx* result, DroppedReferences* dropped);

  // queue_pair_keepalive.cc.
  // While connected, asks the peer's adapter whether it is there, if it has acknowledged nothing lately. Later, cancels
  // what the hardware has not. Like the next two, on the adapter's thread.
  void OnTimer();
  bool IsDueToCancel(AdapterThread::Clock::time_point now);
  void StartKeepalive();
  void AskPeer();
  // Whether nobody has the connection any more, which this queue pair watches alone.
  bool IsGivenUp(bool unanswered);
  // Whether the kernel's TCP has not heard the peer for too long; *next may become sooner.
  bool IsDeadToTcp(AdapterThread::Clock::time_point now, AdapterThread::Clock::time_point* next);

  // queue_pair_connection.cc.
  NdkStatus MakeHardware(ibv_qp** queue_pair);
  static NdkStatus MoveToInit(ibv_qp* queue_pair, bool iwarp);
  NdkStatus MoveToError();
  NdkStatus Establish(const Attachment& attachment, ConnectionEndCallback on_end);
  void FlushIdle();
  void FlushIdleIwarp();
  bool LeftToTheDriver();
  void EndLocally();
  void HandleBroken();
  void EndRequests();
  void PostLast();
  void CancelAll();

  const ObjectReference<VerbsProtectionDomain> domain_;
  const ObjectReference<VerbsCompletionQueue> receive_cq_;
  const ObjectReference<VerbsCompletionQueue> initiator_cq_;
  const ObjectReference<VerbsSharedReceiveQueue> srq_;
  const QueuePairAttributes attributes_;
  void* cookie_ = nullptr;
  PendingCall broken_;
  Timer timer_;
  std::atomic<bool> alone_ = false;
  SocketAddress local_, peer_;  // Of the connection; they do not change from kConnected on.
  // The adapter's thread only.
  ConnectionIdSearch connection_id_;
  tcp::PeerSilence silence_;
  bool shown_by_tcp_;
  std::atomic<uint32_t> number_ = 0;

  // Changed with both locks, read with either.
  Phase phase_ = Phase::kIdle;
  ibv_qp* queue_pair_ = nullptr;
  mutable std::atomic<uint32_t> untaken_ = 0;  // ResultOwner's.

  std::mutex initiator_mutex_;  // Guards what follows.
  RequestRing initiator_ring_;
  SendChain chain_;                    // The last ones of the ring, not posted yet.
  std::vector<WindowChange> changes_;  // By the slots of their requests. Empty until there is the first.
  std::vector<uint8_t> gathered_;      // Inline data in more pieces than a request takes.
  bool ready_to_send_ = false;
  bool ended_by_software_ = false;  // Requests that wait to be taken in.
  bool last_posted_ = false;        // kLastRequest, whose completion has not come.
  bool acknowledged_ = false;       // Something that was sent, since the last look.
  ConnectionEndCallback on_end_;
  std::optional<AdapterThread::Clock::time_point> cancel_at_;  // When the data path cancels the hardware's rest.
  std::optional<uint32_t> break_error_;  // Of the first failure that tells how the connection ended.

  std::mutex receive_mutex_;  // Guards what follows.
  RequestRing receive_ring_;
  std::vector<ibv_sge> receive_sges_;  // Of the receive that is being posted.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_QUEUE_PAIR_H_
