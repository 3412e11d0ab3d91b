// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/device/device.h"
#include "dataplane/verbs/keepalive_times.h"
#include "dataplane/verbs/qp_attributes.h"
#include "dataplane/verbs/queue_pair.h"
#include "dataplane/verbs/transition.h"
#include "dataplane/verbs/verbs_status.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

// The kernel's tasks cancel what is posted within milliseconds. A device that has failed may never do it.
constexpr std::chrono::seconds kCancelPatience{1};

NdkStatus RefuseAttachment() {
  return Refuse(NdkStatus::kInvalidParameter, "attachment: no step of a queue pair (AttachmentFor)");
}

// A device says no more than an errno; what was asked for may tell why.
NdkStatus RefuseMove(const ibv_qp* queue_pair, const ibv_qp_attr& attributes, int error) {
  const NdkStatus status = FromErrnoResult(error);
  if (attributes.qp_state != IBV_QPS_RTR) {
    return Refuse(status, "queue pair %d does not get to state %d of enum ibv_qp_state: %s (errno %d)",
                  queue_pair->qp_num, static_cast<int>(attributes.qp_state), ErrorText(std::abs(error)),
                  std::abs(error));
  }
  const uint8_t number = std::max<uint8_t>(attributes.ah_attr.port_num, 1);
  ibv_port_attr port = {};
  if (ibv_query_port(queue_pair->context, number, &port) != 0) return status;
  return Refuse(
      status,
      "queue pair %d does not become ready to receive: %s (errno %d). The connection has a path MTU of %u, and "
      "port %d of this side %u: where the first is greater, give both hosts' networks the same MTU. GID index "
      "%d, %d reads to serve",
      queue_pair->qp_num, ErrorText(std::abs(error)), std::abs(error), MtuInBytes(attributes.path_mtu), number,
      MtuInBytes(port.active_mtu), attributes.ah_attr.grh.sgid_index, attributes.max_dest_rd_atomic);
}

}  // namespace

NdkStatus VerbsQueuePair::Make() {
  cookie_ = domain_->adapter()->thread().Register(this, &timer_);
  ibv_qp* made = nullptr;
  const NdkStatus status = MakeHardware(&made);
  if (status != NdkStatus::kSuccess) return status;
  queue_pair_ = made;
  number_ = made->qp_num;
  const bool attached = initiator_cq_->Attach(number_, this) && receive_cq_->Attach(number_, this);
  if (attached) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidDeviceState, "receive_cq, initiator_cq: one of them is dead; make another one");
}

// Receives can be posted from INIT on.
NdkStatus VerbsQueuePair::MakeHardware(ibv_qp** queue_pair) {
  ibv_qp_init_attr attributes = {};
  attributes.qp_context = cookie_;
  attributes.send_cq = initiator_cq_->get();
  attributes.recv_cq = receive_cq_->get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = std::max(attributes_.initiator_queue_depth, 2u) + kHiddenRequests;
  attributes.cap.max_send_sge = std::max(attributes_.max_initiator_request_sge, 1u);
  attributes.cap.max_inline_data = attributes_.inline_data_size;
  if (srq_) {
    attributes.srq = srq_->get();
  } else {
    attributes.cap.max_recv_wr = std::max(attributes_.receive_queue_depth, 1u);
    attributes.cap.max_recv_sge = std::max(attributes_.max_receive_request_sge, 1u);
  }
  int error = 0;  // Of the other thread.
  domain_->adapter()->maker().Run([&] {
    *queue_pair = MakeQueuePair(domain_->adapter()->description(), domain_->get(), attributes);
    error = errno;
  });
  errno = error;
  NdkStatus status = FromPointer(*queue_pair);
  if (status != NdkStatus::kSuccess) return status;
  status = MoveToInit(*queue_pair, domain_->adapter()->iwarp());
  if (status != NdkStatus::kSuccess) ibv_destroy_qp(std::exchange(*queue_pair, nullptr));
  return status;
}

// The first port will do until the broker names the right one. iWARP's drivers have neither ports nor partition keys;
// the kernel notes the port all the same (_ib_modify_qp in drivers/infiniband/core/verbs.c), and RDMA netlink finds a
// queue pair by its number only where it knows that.
NdkStatus VerbsQueuePair::MoveToInit(ibv_qp* queue_pair, bool iwarp) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  const int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | (iwarp ? 0 : IBV_QP_PKEY_INDEX);
  return FromErrnoResult(ibv_modify_qp(queue_pair, &attributes, mask));
}

// Everything that is posted comes back with a flush error.
NdkStatus VerbsQueuePair::MoveToError() {
  const std::lock_guard lock(initiator_mutex_);
  if (queue_pair_ == nullptr) return NdkStatus::kSuccess;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return FromErrnoResult(ibv_modify_qp(queue_pair_, &attributes, IBV_QP_STATE));
}

// After the phase has changed, so that nothing is posted behind it. The hardware cancels what is posted in its own
// time: Soft-RoCE's driver in a task that may come late on a busy machine (rxe_qp_error in
// drivers/infiniband/sw/rxe/rxe_qp.c). OnTimer cancels what it leaves.
void VerbsQueuePair::EndRequests() {
  const bool moved = MoveToError() == NdkStatus::kSuccess;
  if (domain_->adapter()->description().forgets_late_posts) return CancelAll();
  initiator_cq_->TakeEnded(this);
  receive_cq_->TakeEnded(this);
  if (moved) PostLast();
  const std::lock_guard lock(initiator_mutex_);
  cancel_at_ = AdapterThread::Clock::now() + kCancelPatience;
  domain_->adapter()->thread().SetTimer(cookie_, *cancel_at_);
}

// Silent requests that are done have no completion to tell so, and those that software has ended wait behind them. The
// hardware cancels this one when it has cancelled all that it has not done, and nothing is posted any more.
void VerbsQueuePair::PostLast() {
  const std::lock_guard lock(initiator_mutex_);
  if (last_posted_ || initiator_ring_.empty() || !initiator_cq_->question_places().Reserve()) return;
  ibv_send_wr request = {};
  request.wr_id = kLastRequest;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  last_posted_ = FromPost(ibv_post_send(queue_pair_, &request, &refused)) == NdkStatus::kSuccess;
  if (!last_posted_) initiator_cq_->question_places().Return();
}

// What the hardware has said is taken in; it will say no more.
void VerbsQueuePair::CancelAll() {
  initiator_cq_->CancelBefore(this, kAllRequests, kAllRequests);
  receive_cq_->CancelBefore(this, kAllRequests, kAllRequests);
}

// Windows that the queue pair has bound hold it: Soft-RoCE's driver would wait for them. It stays attached until what
// the hardware has said of it, up to its destruction, is taken in: receives of a shared queue have no other end.
void VerbsQueuePair::Dismantle() {
  if (queue_pair_ == nullptr) return;
  DroppedReferences dropped;
  initiator_cq_->Reap();
  receive_cq_->Reap();
  domain_->EndBindings(this, &dropped);
  ibv_destroy_qp(queue_pair_);
  CancelAll();
  if (last_posted_) initiator_cq_->question_places().Return();
  initiator_cq_->Detach(number_, this);
  receive_cq_->Detach(number_, this);
  initiator_cq_->Forget(this);
  receive_cq_->Forget(this);
}

void VerbsQueuePair::OnClose() {
  domain_->adapter()->thread().Unregister(cookie_);
  if (queue_pair_ == nullptr) return;
  // What is posted is cancelled when it is destroyed, then.
  const bool left = LeftToTheDriver();
  EndLocally();
  if (!left) EndRequests();
}

// An iWARP queue pair before its connection is established: soft iWARP's driver, where it has accepted and waits for
// the peer's first frame, ends in a BUG() of the kernel by any other state (cm_close_handler in
// drivers/infiniband/core/iwcm.c).
bool VerbsQueuePair::LeftToTheDriver() {
  const std::lock_guard lock(initiator_mutex_);
  return phase_ == Phase::kIdle && domain_->adapter()->iwarp();
}

void VerbsQueuePair::EndLocally() {
  const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
  on_end_ = nullptr;
  EndChain();
  ended_by_software_ = false;
  phase_ = Phase::kEnded;
}

void VerbsQueuePair::Break(uint32_t provider_error, bool tells) {
  const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
  if (phase_ == Phase::kEnded) return;
  if (phase_ == Phase::kBroken && (!tells || break_error_.has_value())) return;
  phase_ = Phase::kBroken;
  if (tells) break_error_ = provider_error;
  EndChain();
  ended_by_software_ = false;
  // The consumer's own reference is there still: closing it is an end by the local side.
  domain_->adapter()->thread().Call(&broken_);
}

// The end is told first: an iWARP device's connection manager hears of what follows, and what it tells of that, by way
// of the broker, is an end in order.
void VerbsQueuePair::HandleBroken() {
  ConnectionEndCallback callback;
  ConnectionEnd end;
  {
    const std::lock_guard lock(initiator_mutex_);
    if (break_error_.has_value()) callback = std::exchange(on_end_, nullptr);
    end.provider_error = break_error_.value_or(0);
  }
  if (callback) callback(end);
  EndRequests();
}

void VerbsQueuePair::OnFailure(const EventTarget& failed) {
  if (&failed == srq_.get()) Break(0);
}

// A device that fails may be there still, and cancels what is posted. Of one that is there no more this event is the
// last: the kernel has destroyed what the process had of it (uverbs_async_event_destroy_uobj in
// drivers/infiniband/core/uverbs_std_types_async_fd.c) and answers EIO.
void VerbsQueuePair::OnAsyncEvent(ibv_event_type type) {
  Break(0);
  if (type == IBV_EVENT_DEVICE_FATAL && MoveToError() == NdkStatus::kDeviceRemoved) CancelAll();
}

NdkStatus VerbsQueuePair::Attach(Attachment attachment, ConnectionEndCallback on_end) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (attachment.socket) return RefuseAttachment();
  if (attachment.state.empty()) return Establish(attachment, std::move(on_end));
  const auto transition = TransitionOf(attachment.state);
  if (!transition.has_value()) return RefuseAttachment();
  auto attributes = AttributesOf(*transition);
  if (!attributes.has_value()) return RefuseAttachment();
  const bool limited = attributes->qp_state == IBV_QPS_RTS && attributes_.keepalive.count() > 0;
  if (limited) FailWithin(TimeToFail(attributes_.keepalive), &*attributes);
  const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
  const bool to_init = attributes->qp_state == IBV_QPS_INIT;
  if (phase_ != Phase::kIdle && (phase_ != Phase::kMoving || to_init)) return RefuseUsedQueuePair();
  const int error = ibv_modify_qp(queue_pair_, &*attributes, static_cast<int>(transition->mask));
  if (error != 0) return RefuseMove(queue_pair_, *attributes, error);
  if (!to_init) phase_ = Phase::kMoving;
  ready_to_send_ = attributes->qp_state == IBV_QPS_RTS;
  on_end_ = std::move(on_end);
  return NdkStatus::kSuccess;
}

NdkStatus VerbsQueuePair::Establish(const Attachment& attachment, ConnectionEndCallback on_end) {
  const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
  if (phase_ != Phase::kIdle && phase_ != Phase::kMoving) return RefuseUsedQueuePair();
  // iWARP's drivers move the queue pair themselves.
  if (!ready_to_send_ && !domain_->adapter()->iwarp()) {
    return Refuse(NdkStatus::kInvalidParameter, "queue pair %d: it is not ready to send", number_);
  }
  phase_ = Phase::kConnected;
  local_ = attachment.local;
  peer_ = attachment.peer;
  on_end_ = std::move(on_end);
  StartKeepalive();
  return NdkStatus::kSuccess;
}

NdkStatus VerbsQueuePair::Disconnect(std::chrono::milliseconds, RequestCompletion) {
  return Refuse(NdkStatus::kNotSupported,
                "queue pair: the broker ends the connections of this adapter; disconnect there");
}

void VerbsQueuePair::Flush() {
  if (IsForkedChild()) return;
  bool idle = false;
  {
    const std::lock_guard lock(receive_mutex_);
    idle = phase_ == Phase::kIdle;
  }
  if (idle) return domain_->adapter()->iwarp() ? FlushIdleIwarp() : FlushIdle();
  EndLocally();
  EndRequests();
}

// There is a way back from the error state by RESET only, where the hardware forgets what is posted.
void VerbsQueuePair::FlushIdle() {
  uint64_t end = 0;
  bool good = false;
  {
    const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
    if (receive_ring_.empty()) return;
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RESET;
    good = ibv_modify_qp(queue_pair_, &attributes, IBV_QP_STATE) == 0 &&
           MoveToInit(queue_pair_, false) == NdkStatus::kSuccess;
    end = receive_ring_.tail();
  }
  receive_cq_->CancelBefore(this, 0, end);
  if (!good) Break(0);
}

// Not even that: siw's error state is its last, and RESET and INIT are one state to it. Another one takes its place,
// which has another number. Where that cannot be made, or there is no memory to see that the kernel shows it, this is
// the queue pair's end.
void VerbsQueuePair::FlushIdleIwarp() {
  {
    const std::lock_guard lock(receive_mutex_);
    if (receive_ring_.empty()) return;
  }
  ibv_qp* made = nullptr;
  if (CatchExceptions([&] { return MakeHardware(&made); }) != NdkStatus::kSuccess) {
    EndLocally();
    return EndRequests();
  }
  initiator_cq_->Renumber(number_, made->qp_num, this);
  receive_cq_->Renumber(number_, made->qp_num, this);
  uint64_t end = 0;
  {
    const std::scoped_lock lock(initiator_mutex_, receive_mutex_);
    std::swap(queue_pair_, made);
    number_ = queue_pair_->qp_num;
    end = receive_ring_.tail();
  }
  ibv_destroy_qp(made);
  receive_cq_->CancelBefore(this, 0, end);
}

}  // namespace rdmabroker::verbs
