// SPDX-License-Identifier: Apache-2.0

// Queue pairs and shared receive queues: how they come, change and go.

#include <algorithm>
#include <cerrno>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

// As InfiniBand's adapters, which keep the first two for management.
constexpr uint32_t kFirstNumber = 2;

uint32_t LowestFreeNumber(const StandInDevice& device) {
  uint32_t number = kFirstNumber;
  for (const auto& [taken, pair] : device.pairs) {
    if (taken != number) break;
    ++number;
  }
  return number;
}

bool Fits(const ibv_qp_init_attr& attributes) {
  const ibv_qp_cap& cap = attributes.cap;
  const bool receives =
      attributes.srq != nullptr || (cap.max_recv_wr <= kMostRequests && cap.max_recv_sge <= kMostSges);
  return attributes.qp_type == IBV_QPT_RC && attributes.send_cq != nullptr && attributes.recv_cq != nullptr &&
         receives && cap.max_send_wr <= kMostRequests && cap.max_send_sge <= kMostSges &&
         cap.max_inline_data <= kMostInlineBytes;
}

// What a transition must bring, by the tables of ibv_modify_qp(3); -1: there is no such transition.
int RequiredMask(ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return IBV_QP_STATE;
  if (to == IBV_QPS_INIT && from == IBV_QPS_RESET) {
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  }
  if (to == from) return IBV_QP_STATE;
  if (to == IBV_QPS_RTR && from == IBV_QPS_INIT) {
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER;
  }
  if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
    return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return -1;
}

// Forgets what is posted; completions that are in a queue already stay there.
void ResetPair(StandInPair* pair) {
  pair->receives.clear();
  pair->sends.clear();
  pair->taken_receives = 0;
  pair->sends_done = pair->sends_posted;
  pair->gives_up_at.reset();
  pair->peer = 0;
  pair->serial = StandInDevice::Get().next_serial++;
}

void TakeAttributes(StandInPair* pair, const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair->access = attributes.qp_access_flags;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair->peer = attributes.dest_qp_num;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) pair->receiver_timer = attributes.min_rnr_timer;
  if ((mask & IBV_QP_RNR_RETRY) != 0) pair->receiver_retries = attributes.rnr_retry;
}

}  // namespace
}  // namespace rdmabroker::verbs

using rdmabroker::verbs::AwaitEvents;
using rdmabroker::verbs::Call;
using rdmabroker::verbs::FlushPair;
using rdmabroker::verbs::StandIn;
using rdmabroker::verbs::StandInDevice;
using rdmabroker::verbs::StandInDomain;
using rdmabroker::verbs::StandInPair;
using rdmabroker::verbs::StandInQueue;
using rdmabroker::verbs::StandInShared;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  Call call("ibv_create_qp");
  if (call.error() != 0) return Call::Fail(call.error());
  if (!rdmabroker::verbs::Fits(*attributes)) return Call::Fail(EINVAL);
  auto* const made = new StandInPair();
  made->context = domain->context;
  made->qp_context = attributes->qp_context;
  made->pd = domain;
  made->send_cq = attributes->send_cq;
  made->recv_cq = attributes->recv_cq;
  made->srq = attributes->srq;
  made->qp_num = rdmabroker::verbs::LowestFreeNumber(StandInDevice::Get());
  made->state = IBV_QPS_RESET;
  made->qp_type = attributes->qp_type;
  made->serial = call->next_serial++;
  made->cap = attributes->cap;
  made->signals_all = attributes->sq_sig_all != 0;
  call->pairs[made->qp_num] = made;
  ++static_cast<StandInQueue*>(made->send_cq)->users;
  ++static_cast<StandInQueue*>(made->recv_cq)->users;
  if (made->srq != nullptr) ++static_cast<StandInShared*>(made->srq)->users;
  ++static_cast<StandInDomain*>(domain)->users;
  ++call->objects;
  return made;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const Call call("ibv_modify_qp");
  if (call.error() != 0) return call.error();
  auto* const pair = static_cast<StandInPair*>(qp);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : qp->state;
  const int required = rdmabroker::verbs::RequiredMask(qp->state, to);
  if (required < 0 || ((mask | IBV_QP_STATE) & required) != required) return EINVAL;
  rdmabroker::verbs::TakeAttributes(pair, *attributes, mask);
  if (to == IBV_QPS_ERR) {
    rdmabroker::verbs::FailPair(pair);
    return 0;
  }
  if (to == IBV_QPS_RESET) rdmabroker::verbs::ResetPair(pair);
  qp->state = to;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  Call call("ibv_destroy_qp");
  if (call.error() != 0) return call.error();
  auto* const pair = static_cast<StandInPair*>(qp);
  for (const auto& [key, window] : call->windows) {
    if (window->pair == pair) rdmabroker::verbs::UnbindWindow(window);
  }
  if (pair->state == IBV_QPS_ERR && call->flush == StandIn::Flush::kWhenDestroyed) FlushPair(pair);
  // Nothing happens to it while this waits, nor does anybody get its number.
  pair->state = IBV_QPS_RESET;
  pair->gives_up_at.reset();
  AwaitEvents(&call, qp->context, pair, pair->async_events);
  call->pairs.erase(qp->qp_num);
  --static_cast<StandInQueue*>(qp->send_cq)->users;
  --static_cast<StandInQueue*>(qp->recv_cq)->users;
  if (qp->srq != nullptr) --static_cast<StandInShared*>(qp->srq)->users;
  --static_cast<StandInDomain*>(qp->pd)->users;
  --call->objects;
  delete pair;
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  Call call("ibv_create_srq");
  if (call.error() != 0) return Call::Fail(call.error());
  const ibv_srq_attr& wanted = attributes->attr;
  if (wanted.max_wr == 0 || wanted.max_wr > rdmabroker::verbs::kMostRequests ||
      wanted.max_sge > rdmabroker::verbs::kMostSges) {
    return Call::Fail(EINVAL);
  }
  auto* const made = new StandInShared();
  made->context = domain->context;
  made->srq_context = attributes->srq_context;
  made->pd = domain;
  made->serial = call->next_serial++;
  made->depth = wanted.max_wr;
  made->max_sge = wanted.max_sge;
  call->shared.push_back(made);
  ++static_cast<StandInDomain*>(domain)->users;
  ++call->objects;
  return made;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  const Call call("ibv_modify_srq");
  if (call.error() != 0) return call.error();
  auto* const shared = static_cast<StandInShared*>(srq);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (attributes->max_wr < shared->taken_places || attributes->max_wr > rdmabroker::verbs::kMostRequests) {
      return EINVAL;
    }
    shared->depth = attributes->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attributes->srq_limit > shared->depth) return EINVAL;
    shared->limit = attributes->srq_limit;
    rdmabroker::verbs::TellOfLimit(shared);
  }
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  Call call("ibv_destroy_srq");
  if (call.error() != 0) return call.error();
  auto* const shared = static_cast<StandInShared*>(srq);
  if (shared->users > 0) return EBUSY;
  AwaitEvents(&call, srq->context, shared, shared->async_events);
  std::erase(call->shared, shared);
  --static_cast<StandInDomain*>(srq->pd)->users;
  --call->objects;
  delete shared;
  return 0;
}

}  // extern "C"
