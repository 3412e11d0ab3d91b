// SPDX-License-Identifier: Apache-2.0

// What a connection does that another process began.

#include <infiniband/verbs.h>

#include <cerrno>
#include <string>
#include <utility>

#include "broker/fabric/rdmacm/cm_connection.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

constexpr char kLost[] =
    "the broker was started again in the middle of it, and the kernel has nothing of it left; connect again";

// The kernel does not say on which interface a link-local address is.
bool IsSame(SocketAddress kernels, const SocketAddress& ours) {
  kernels.ip.scope_id = ours.ip.scope_id;
  return kernels == ours;
}

}  // namespace

void CmConnection::Adopt(const FabricAdoptConnection& request, const std::optional<CmConnectionRecord>& record,
                         bool migrated) {
  switch (request.stage) {
    case AdoptedStage::kConnecting:
      state_ = State::kConnecting;
      break;
    case AdoptedStage::kRequested:
      state_ = State::kRequested;
      break;
    case AdoptedStage::kReplied:
      state_ = State::kReplied;
      break;
    case AdoptedStage::kEstablished:
      state_ = State::kEstablished;
      break;
    case AdoptedStage::kOver:
      state_ = State::kOver;
      break;
  }
  const bool connecting = state_ == State::kConnecting;
  const bool between_attempts = connecting && record && !record->kernel_id;
  if (!migrated && !between_attempts) return Lose();
  if (between_attempts) state_ = State::kWaiting;
  kernel_id_ = record->kernel_id;
  tried_again_ = record->tried_again;
  accepted_ = record->accepted;
  const bool own = IncomingCounter(id_) == 0;
  towards_ = {own ? PeerWait::kTimed : PeerWait::kUntimed, record->uid, record->session, record->peer};
  unsure_ = true;
  unchecked_ = state_ == State::kConnecting && !device_.three_way;
  if (record->answer_due) {
    answer_ = Answer::kDue;
  } else if (!device_.three_way && (unchecked_ || accepted_ || state_ == State::kOver)) {
    answer_ = Answer::kPerhaps;
  }
  if (!connecting) return;
  request_ = FabricConnect{.device = request.device,
                           .connection = id_,
                           .endpoint = request.endpoint,
                           .session = record->session,
                           .qp = record->qp,
                           .local = request.local,
                           .peer = request.peer,
                           .limits = record->limits,
                           .private_data = record->private_data,
                           .process = record->process,
                           .uid = record->uid,
                           .options = record->options};
}

// On iWARP that is stored first. InfiniBand's CM ends what it is asked to accept a second time (cma_accept_ib in
// drivers/infiniband/core/cma.c).
bool CmConnection::WasAccepted(const FabricAccept& request) const {
  if (accepted_ || !held_.empty()) return true;
  CmAddresses at;
  return device_.three_way && surroundings_.file->QueryAddresses(*kernel_id_, &at) == 0 &&
         surroundings_.former.HadJoined(request.qp, at);
}

void CmConnection::Lose() {
  if (state_ == State::kOver) return;
  if (const auto left_out = surroundings_.losses.Pass(Loop::Now())) {
    LogWarning("connection lost with the process before", {{"connection", id_.value()},
                                                           {"established", state_ == State::kEstablished},
                                                           {"status", StatusName(NdkStatus::kConnectionAborted)},
                                                           {"cause", "the kernel has nothing of it left"},
                                                           {"left_out", *left_out}});
  }
  if (state_ == State::kEstablished) return End(NdkStatus::kConnectionAborted, 0);
  // A driver that moves the queue pair may have begun to.
  qp_reusable_ = device_.three_way;
  Fail(NdkStatus::kConnectionAborted, 0, {}, kLost);
}

void CmConnection::GoOn() {
  if (!unsure_) return;
  if (state_ == State::kWaiting) return AwaitTurn();
  if (state_ == State::kConnecting) return GoOnConnecting();
  unsure_ = false;
  // That the peer has gone: nobody has asked for an accept, whose outcome they could have been.
  for (const CmEvent& event : std::exchange(held_, {})) OnEvent(event);
  // Where the store was full, events that the process before had dealt with are neither in it nor in the journal.
  // iWARP's CM says the same of every state.
  if (!device_.three_way || Tells(IBV_QPS_INIT).has_value()) return;
  if (state_ == State::kReplied) return Fail(NdkStatus::kConnectionAborted, 0, {}, kLost);
  // Nobody here has ended it, so the peer has, gracefully: the CM has no other end that it begins by itself.
  if (state_ == State::kEstablished) End(NdkStatus::kSuccess, 0);
}

// RESOLVE_ROUTE and CONNECT are refused with EINVAL, and change nothing, but where their turn has come (cma_comp_exch
// in drivers/infiniband/core/cma.c). RESOLVE_ADDR is not so harmless: it forgets the peer's address.
void CmConnection::GoOnConnecting() {
  CmAddresses at;
  if (surroundings_.file->QueryAddresses(*kernel_id_, &at) != 0) return Lose();
  if (at.peer.ip.IsAny()) return ResolveAddress();
  // The number of an id that has ended meanwhile may be another's.
  if (!IsSame(at.local, request_->local) || !IsSame(at.peer, request_->peer)) return Lose();
  const std::optional<QpAttributes> initial = Tells(IBV_QPS_INIT);
  // There are rights for the peer from CONNECT on (rdma_init_qp_attr), and none for anybody after its end: the event
  // that tells of it is on its way.
  if (!initial || initial->access_flags != 0) return;
  if (at.device_index != device_.index) return ConnectFailed(CmStep::kResolveAddress, ENODEV);
  // CONNECT has failed, or has not been asked for.
  answer_ = Answer::kNone;
  if (surroundings_.file->ResolveRoute(*kernel_id_) != 0) return Connect();
  unsure_ = false;
  state_ = State::kResolvingRoute;
}

}  // namespace rdmabroker
