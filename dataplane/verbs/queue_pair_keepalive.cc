// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/tcp/tcp_state.h"
#include "dataplane/verbs/device/connection_ids.h"
#include "dataplane/verbs/keepalive_times.h"
#include "dataplane/verbs/queue_pair.h"

namespace rdmabroker::verbs {
namespace {

// Without memory to ask the kernel, as where it cannot be asked for another reason: the next look may see more.
bool NothingSeen(NdkStatus) { return false; }

}  // namespace

// With the initiator lock held, as the next.
void VerbsQueuePair::StartKeepalive() {
  if (attributes_.keepalive.count() == 0) return;
  domain_->adapter()->thread().SetTimer(cookie_, AdapterThread::Clock::now() + LookWhenHeard(attributes_.keepalive));
}

// An empty write needs no memory at the peer's (InfiniBand Architecture Specification, C9-88; RFC 5040, section 5.2),
// takes up none of its receives, and is acknowledged by its adapter, whatever its program does.
void VerbsQueuePair::AskPeer() {
  if (!initiator_cq_->question_places().Reserve()) return;
  ibv_send_wr& request = chain_.Add({}, false);
  request.wr_id = initiator_ring_.Push(
      {.type = OperationType::kWrite, .signal = Signal::kHidden, .internal = true, .beyond = true});
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  // With what was deferred before it: requests end in the order of the ring.
  PostChain(1);
}

// iWARP's drivers need not answer what is posted to a queue pair whose peer has ended the connection in order: soft
// iWARP's forgets it (siw_post_send in drivers/infiniband/sw/siw/siw_verbs.c). A broker without records ends its part
// of such a connection then.
bool VerbsQueuePair::IsGivenUp(bool unanswered) {
  const VerbsAdapter* const adapter = domain_->adapter();
  if (!alone_ || !adapter->iwarp()) return false;
  const auto look = [&] {
    const uint32_t device = adapter->device_index();
    if (connection_id_.GoesOn()) connection_id_.Take(FindConnectionIds(device), number_);
    const auto id = connection_id_.number();
    return unanswered && id && !IsConnectionIdShown(device, *id);
  };
  return CatchExceptions(look, NothingSeen);
}

// Soft iWARP calls a write done as soon as TCP has it (siw_qp_sq_process in drivers/infiniband/sw/siw/siw_qp_tx.c), and
// the kernel's TCP tries for a quarter of an hour. Where the kernel has no such connection to show, it never will.
bool VerbsQueuePair::IsDeadToTcp(AdapterThread::Clock::time_point now, AdapterThread::Clock::time_point* next) {
  if (!shown_by_tcp_) return false;
  const auto look = [&] {
    tcp::TcpState state;
    const int error = tcp::FindTcpState(local_, peer_, &state);
    shown_by_tcp_ = error != ENOENT;
    if (error != 0) return false;
    *next = std::min(*next, silence_.NextLook(state, now));
    return silence_.IsDead(state, now);
  };
  return CatchExceptions(look, NothingSeen);
}

bool VerbsQueuePair::IsDueToCancel(AdapterThread::Clock::time_point now) {
  const std::lock_guard lock(initiator_mutex_);
  return cancel_at_.has_value() && *cancel_at_ <= now;
}

// The hardware gives the peer up, and its completion says so, which nobody may be waiting for.
void VerbsQueuePair::OnTimer() {
  initiator_cq_->Reap();
  const auto now = AdapterThread::Clock::now();
  if (IsDueToCancel(now)) return CancelAll();
  auto next = now;
  bool refused = false;
  bool unanswered = false;
  {
    const std::lock_guard lock(initiator_mutex_);
    if (phase_ != Phase::kConnected) return;
    const bool heard = std::exchange(acknowledged_, false);
    unanswered = !heard && initiator_ring_.beyond() != 0;
    if (!heard && !unanswered) AskPeer();
    next += heard ? LookWhenHeard(attributes_.keepalive) : LookWhenAsked(attributes_.keepalive);
    refused = std::exchange(ended_by_software_, false);
  }
  const bool dead = IsDeadToTcp(now, &next);
  {
    const std::lock_guard lock(initiator_mutex_);
    if (!cancel_at_.has_value()) domain_->adapter()->thread().SetTimer(cookie_, next);
  }
  if (!refused && !dead && !IsGivenUp(unanswered)) return;
  Break(0);
  initiator_cq_->TakeEnded(this);
}

}  // namespace rdmabroker::verbs
