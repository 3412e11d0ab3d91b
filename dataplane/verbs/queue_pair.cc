// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/memory_checks.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/verbs_status.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

// A bind takes two places where it has to end the binding before.
uint32_t InitiatorDepth(const QueuePairAttributes& attributes) {
  return std::max(attributes.initiator_queue_depth, 2u);
}

// Nobody has checked what goes unused beside a shared receive queue.
size_t ReceiveDepth(const QueuePairAttributes& attributes) {
  return attributes.srq != nullptr ? 1 : std::max(attributes.receive_queue_depth, 1u);
}
size_t ReceiveSges(const QueuePairAttributes& attributes) {
  return attributes.srq != nullptr ? 1 : std::max(attributes.max_receive_request_sge, 1u);
}

unsigned int SendFlags(OpFlags flags, Signal signal) {
  unsigned int result = 0;
  if ((flags & kOpReadFence) != 0) result |= IBV_SEND_FENCE;
  if ((flags & kOpSendAndSolicitEvent) != 0) result |= IBV_SEND_SOLICITED;
  if ((flags & kOpInline) != 0) result |= IBV_SEND_INLINE;
  if (signal != Signal::kNone) result |= IBV_SEND_SIGNALED;
  return result;
}

}  // namespace

// The domain has checked that the queues are its adapter's.
VerbsQueuePair::VerbsQueuePair(VerbsProtectionDomain* domain, const QueuePairAttributes& attributes)
    : domain_(domain),
      receive_cq_(static_cast<VerbsCompletionQueue*>(attributes.receive_cq)),
      initiator_cq_(static_cast<VerbsCompletionQueue*>(attributes.initiator_cq)),
      srq_(static_cast<VerbsSharedReceiveQueue*>(attributes.srq)),
      attributes_(attributes),
      broken_(this, [this] { HandleBroken(); }),
      timer_(this, [this] { OnTimer(); }),
      silence_(attributes.keepalive, tcp::PeerSilence::Asking::kDataOnly),
      shown_by_tcp_(domain->adapter()->description().speaks_by_the_kernels_tcp),
      initiator_ring_(InitiatorDepth(attributes), kHiddenRequests),
      chain_(std::max(attributes.max_initiator_request_sge, 1u)),
      gathered_(attributes.inline_data_size),
      receive_ring_(ReceiveDepth(attributes)),
      receive_sges_(ReceiveSges(attributes)) {}

NdkStatus VerbsQueuePair::Send(void* request_context, std::span<const Sge> sges, OpFlags flags) {
  return Post({.flags = flags, .context = request_context, .sges = sges});
}

NdkStatus VerbsQueuePair::SendAndInvalidate(void* request_context, std::span<const Sge> sges, OpFlags flags,
                                            RemoteToken token) {
  return Post(
      {.opcode = IBV_WR_SEND_WITH_INV, .flags = flags, .context = request_context, .sges = sges, .invalidate = token});
}

NdkStatus VerbsQueuePair::Read(void* request_context, std::span<const Sge> sges, RemoteMemory source, OpFlags flags) {
  return Post({.type = OperationType::kRead,
               .opcode = IBV_WR_RDMA_READ,
               .flags = flags,
               .context = request_context,
               .sges = sges,
               .remote = source});
}

NdkStatus VerbsQueuePair::Write(void* request_context, std::span<const Sge> sges, RemoteMemory target, OpFlags flags) {
  return Post({.type = OperationType::kWrite,
               .opcode = IBV_WR_RDMA_WRITE,
               .flags = flags,
               .context = request_context,
               .sges = sges,
               .remote = target});
}

NdkStatus VerbsQueuePair::Bind(void* request_context, MemoryRegion* region, MemoryWindow* window, void* address,
                               size_t length, OpFlags flags) {
  const bool named = region != nullptr && window != nullptr;
  return Post({.type = OperationType::kBind,
               .opcode = IBV_WR_BIND_MW,
               .flags = flags,
               .context = request_context,
               .refusal = named ? NdkStatus::kSuccess : RefuseNamed(),
               .window = static_cast<VerbsMemoryWindow*>(window),
               .region = static_cast<VerbsMemoryRegion*>(region),
               .address = address,
               .length = length});
}

NdkStatus VerbsQueuePair::Invalidate(void* request_context, MemoryWindow* window, OpFlags flags) {
  return Post({.type = OperationType::kInvalidate,
               .opcode = IBV_WR_LOCAL_INV,
               .flags = flags,
               .context = request_context,
               .refusal = window != nullptr ? NdkStatus::kSuccess : RefuseNamed(),
               .window = static_cast<VerbsMemoryWindow*>(window)});
}

// libibverbs has no request for either. What was deferred must not wait for them.
NdkStatus VerbsQueuePair::FastRegister(void*, MemoryRegion*, std::span<void* const>, size_t, size_t, uint64_t,
                                       OpFlags) {
  return Post({.refusal = RefuseFastRegister()});
}

NdkStatus VerbsQueuePair::Invalidate(void*, MemoryRegion*, OpFlags) { return Post({.refusal = RefuseFastRegister()}); }

NdkStatus VerbsQueuePair::Post(const InitiatorPost& post) {
  if (IsForkedChild()) return RefuseInForkedChild();
  // What the peer has invalidated must not be invalidated again.
  if (post.window != nullptr) receive_cq_->Reap();
  std::unique_lock lock(initiator_mutex_);
  if (Crowded(post)) {
    lock.unlock();
    initiator_cq_->Reap();
    lock.lock();
  }
  size_t own = 0;
  NdkStatus status = Check(post);
  if (status == NdkStatus::kSuccess) status = Enqueue(post, &own);
  // Windows change as they are posted, and inline data is the consumer's again when this returns.
  const bool defers = (post.flags & kOpDefer) != 0 && (post.flags & kOpInline) == 0 && post.window == nullptr;
  const bool crowded = chain_.room() < 2;
  bool dead = false;
  if (!chain_.empty() && (status != NdkStatus::kSuccess || !defers || crowded)) {
    const NdkStatus posted = PostChain(own);
    dead = ended_by_software_;
    if (status == NdkStatus::kSuccess) status = posted;
  }
  const bool ended = std::exchange(ended_by_software_, false);
  lock.unlock();
  if (dead) Break(0);
  if (ended) initiator_cq_->TakeEnded(this);
  return status;
}

// Places that are taken by what is done already come free when the completions are looked at.
bool VerbsQueuePair::Crowded(const InitiatorPost& post) const {
  return initiator_ring_.room() < 2 || ((post.flags & kOpSilentSuccess) != 0 && initiator_ring_.needs_signal());
}

NdkStatus VerbsQueuePair::Check(const InitiatorPost& post) const {
  if (post.refusal != NdkStatus::kSuccess) return post.refusal;
  if (phase_ != Phase::kConnected && phase_ != Phase::kBroken) return RefuseUnconnected();
  if ((post.flags & ~AllowedFlags(post.type)) != 0) return RefuseFlags(post.type, post.flags);
  const AdapterInfo& info = domain_->adapter()->info();
  const uint64_t total = TotalLength(post.sges);
  if ((post.flags & kOpInline) != 0) {
    // siw ends the connection over it.
    if (post.opcode == IBV_WR_SEND_WITH_INV && domain_->adapter()->iwarp()) {
      return Refuse(NdkStatus::kNotSupported, "flags: iWARP devices send no inline data with an invalidation");
    }
    if (total > attributes_.inline_data_size) return RefuseInlineData(total, attributes_.inline_data_size);
  } else {
    const uint32_t limit = post.type == OperationType::kRead ? info.max_read_request_sge : ~0u;
    const size_t max_sge = std::min(attributes_.max_initiator_request_sge, limit);
    if (post.sges.size() > max_sge || total > info.max_transfer_length) {
      return RefusePieces(post.sges.size(), total, max_sge, info.max_transfer_length);
    }
  }
  for (const VerbsProtectionDomain* const domain : {post.window == nullptr ? domain_.get() : post.window->domain(),
                                                    post.region == nullptr ? domain_.get() : post.region->domain()}) {
    if (domain != domain_.get()) return RefuseNamed();
  }
  if (initiator_ring_.room() > untaken_) return NdkStatus::kSuccess;
  return RefuseFullQueue(attributes_.initiator_queue_depth);
}

// The binding of a window is known sooner where its requests are reported to this side.
NdkStatus VerbsQueuePair::ChooseSignal(const InitiatorPost& post, Signal* signal) {
  *signal = Signal::kReported;
  if ((post.flags & kOpSilentSuccess) == 0) return NdkStatus::kSuccess;
  *signal = Signal::kNone;
  if (!initiator_ring_.wants_signal() && post.window == nullptr) return NdkStatus::kSuccess;
  if (initiator_cq_->silent_places().Reserve()) {
    *signal = Signal::kHidden;
    return NdkStatus::kSuccess;
  }
  if (!initiator_ring_.needs_signal()) return NdkStatus::kSuccess;
  return Refuse(
      NdkStatus::kInsufficientResources,
      "queue: full with silent requests, and the completion queue has no place to hear of their end: take results "
      "from it, and try again");
}

// `own` becomes the number of work requests that it takes.
NdkStatus VerbsQueuePair::Enqueue(const InitiatorPost& post, size_t* own) {
  if (phase_ == Phase::kBroken) {
    const uint64_t sequence =
        initiator_ring_.Push({.context = post.context, .type = post.type, .signal = Signal::kNone});
    initiator_ring_.EndFrom(sequence, NdkStatus::kCancelled);
    ended_by_software_ = true;
    return NdkStatus::kSuccess;
  }
  NdkStatus status = post.window == nullptr ? NdkStatus::kSuccess : MakeRoomForChanges();
  if (status != NdkStatus::kSuccess) return status;
  Signal signal = Signal::kNone;
  status = ChooseSignal(post, &signal);
  if (status != NdkStatus::kSuccess) return status;
  if (post.type == OperationType::kBind) {
    status = EnqueueBind(post, signal, own);
  } else if (post.type == OperationType::kInvalidate) {
    status = EnqueueInvalidate(post, signal, own);
  } else {
    ibv_send_wr& request = Append(post, signal, false);
    request.wr.rdma.remote_addr = post.remote.address;
    request.wr.rdma.rkey = static_cast<uint32_t>(post.remote.token);
    if (post.opcode == IBV_WR_SEND_WITH_INV) request.invalidate_rkey = static_cast<uint32_t>(post.invalidate);
    *own = 1;
  }
  if (status != NdkStatus::kSuccess && signal == Signal::kHidden) initiator_cq_->silent_places().Return();
  return status;
}

NdkStatus VerbsQueuePair::EnqueueBind(const InitiatorPost& post, Signal signal, size_t* own) {
  const VerbsMemoryWindow::Posting posting = post.window->PostingBy(this);
  if (posting.window == nullptr) {
    return Refuse(NdkStatus::kInsufficientResources, "window: its device has no more windows: close some");
  }
  if (posting.foreign) {
    return Refuse(NdkStatus::kInvalidDeviceRequest,
                  "window: it is bound by another queue pair; invalidate it there first");
  }
  if (posting.bound && initiator_ring_.room() < 2) return RefuseFullQueue(attributes_.initiator_queue_depth);
  ibv_mw_bind_info info = {};
  const NdkStatus status = post.region->StartBinding(post.address, post.length, post.flags, &info);
  if (status != NdkStatus::kSuccess) {
    if (posting.taken) post.window->Release();
    return status;
  }
  if (posting.bound) {
    InitiatorPost unbind = post;
    unbind.type = OperationType::kInvalidate;
    unbind.opcode = IBV_WR_LOCAL_INV;
    Append(unbind, Signal::kNone, true).invalidate_rkey = posting.key;
    AddChange(post.window, nullptr, posting.key);
  }
  ibv_send_wr& request = Append(post, signal, false);
  request.bind_mw.mw = posting.window;
  request.bind_mw.rkey = posting.next_key;
  request.bind_mw.bind_info = info;
  AddChange(post.window, post.region, posting.next_key).took_window = posting.taken;
  *own = posting.bound ? 2 : 1;
  return NdkStatus::kSuccess;
}

NdkStatus VerbsQueuePair::EnqueueInvalidate(const InitiatorPost& post, Signal signal, size_t* own) {
  const VerbsMemoryWindow::Posting posting = post.window->PostingBy(this);
  // Soft-RoCE's driver does not survive the invalidation of a window that is not bound.
  if (!posting.bound || posting.foreign) {
    if (posting.taken) post.window->Release();
    return RefuseInvalidation();
  }
  Append(post, signal, false).invalidate_rkey = posting.key;
  AddChange(post.window, nullptr, posting.key);
  *own = 1;
  return NdkStatus::kSuccess;
}

ibv_send_wr& VerbsQueuePair::Append(const InitiatorPost& post, Signal signal, bool internal) {
  const bool gathers = (post.flags & kOpInline) != 0 && post.sges.size() > attributes_.max_initiator_request_sge;
  Sge gathered = {.address = gathered_.data()};
  if (gathers) {
    for (const Sge& sge : post.sges) {
      if (sge.length > 0) std::memcpy(gathered_.data() + gathered.length, sge.address, sge.length);
      gathered.length += sge.length;
    }
  }
  // An iWARP read names its sink, even an empty one; nor can siw fence it, as those after one another are answered in
  // order.
  const bool iwarp_read = post.type == OperationType::kRead && domain_->adapter()->iwarp();
  ibv_send_wr& request = chain_.Add(gathers ? std::span<const Sge>(&gathered, 1) : post.sges, iwarp_read);
  request.wr_id =
      initiator_ring_.Push({.context = post.context, .type = post.type, .signal = signal, .internal = internal});
  request.opcode = post.opcode;
  request.send_flags = SendFlags(iwarp_read ? post.flags & ~kOpReadFence : post.flags, signal);
  return request;
}

// Once, for all that there can be.
NdkStatus VerbsQueuePair::MakeRoomForChanges() {
  if (!changes_.empty()) return NdkStatus::kSuccess;
  return CatchExceptions([this] {
    changes_ = std::vector<WindowChange>(initiator_ring_.slots());
    return NdkStatus::kSuccess;
  });
}

VerbsQueuePair::WindowChange& VerbsQueuePair::AddChange(VerbsMemoryWindow* window, VerbsMemoryRegion* region,
                                                        uint32_t key) {
  WindowChange& change = changes_[initiator_ring_.SlotOf(initiator_ring_.tail() - 1)];
  change = {.key = key,
            .window = ObjectReference<VerbsMemoryWindow>(window),
            .region = ObjectReference<VerbsMemoryRegion>(region)};
  return change;
}

VerbsQueuePair::WindowChange VerbsQueuePair::TakeChange(uint64_t sequence) {
  if (changes_.empty()) return {};
  return std::move(changes_[initiator_ring_.SlotOf(sequence)]);
}

// The last `own` requests are those of the post that is under way. Returns how that goes; where one before it is
// refused, that one and all after it end with results, and the connection is dead.
NdkStatus VerbsQueuePair::PostChain(size_t own) {
  const size_t size = chain_.size();
  const uint64_t first = initiator_ring_.tail() - size;
  const SendChain::Posted posted = chain_.Post(queue_pair_);
  if (posted.accepted < size - own) {
    initiator_ring_.EndFrom(first + posted.accepted + 1, NdkStatus::kCancelled);
    initiator_ring_.EndFrom(first + posted.accepted, NdkStatus::kInternalError);
    ended_by_software_ = true;
    return NdkStatus::kSuccess;
  }
  if (!changes_.empty()) HandlePosted(first, first + posted.accepted);
  if (posted.accepted < size) TakeBack(size - posted.accepted);
  return posted.status;
}

void VerbsQueuePair::HandlePosted(uint64_t first, uint64_t end) {
  for (uint64_t sequence = first; sequence < end; ++sequence) {
    const WindowChange& change = changes_[initiator_ring_.SlotOf(sequence)];
    if (!change.window) continue;
    if (change.region) {
      change.window->HandleBindPosted(change.key);
    } else {
      change.window->HandleInvalidatePosted();
    }
  }
}

void VerbsQueuePair::TakeBack(size_t count) {
  for (; count > 0; --count) {
    ReturnPlace(initiator_ring_.PopLast(), initiator_cq_.get());
    // Not the last references: the consumer's post has not returned.
    const WindowChange change = TakeChange(initiator_ring_.tail());
    if (change.region) change.region->EndBinding();
    if (change.took_window) change.window->Release();
  }
}

// What is deferred will not be posted any more.
void VerbsQueuePair::EndChain() {
  if (chain_.empty()) return;
  initiator_ring_.EndFrom(initiator_ring_.tail() - chain_.size(), NdkStatus::kCancelled);
  chain_.Clear();
  ended_by_software_ = true;
}

NdkStatus VerbsQueuePair::Receive(void* request_context, std::span<const Sge> sges) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (srq_) return RefuseOwnReceives();
  if (const size_t most = attributes_.max_receive_request_sge; sges.size() > most) {
    return RefusePieces(sges.size(), TotalLength(sges), most, domain_->adapter()->info().max_transfer_length);
  }
  std::unique_lock lock(receive_mutex_);
  if (phase_ == Phase::kEnded) return RefuseUnconnected();
  if (receive_ring_.room() == 0) return RefuseFullQueue(attributes_.receive_queue_depth);
  const uint64_t sequence = receive_ring_.Push({.context = request_context});
  if (phase_ == Phase::kBroken) {
    receive_ring_.EndFrom(sequence, NdkStatus::kCancelled);
    lock.unlock();
    receive_cq_->TakeEnded(this);
    return NdkStatus::kSuccess;
  }
  ibv_recv_wr request = ReceiveRequest(sequence, sges, domain_->adapter()->iwarp(), receive_sges_.data());
  ibv_recv_wr* refused = nullptr;
  const NdkStatus status = FromPost(ibv_post_recv(queue_pair_, &request, &refused));
  if (status != NdkStatus::kSuccess) receive_ring_.PopLast();
  return status;
}

}  // namespace rdmabroker::verbs
