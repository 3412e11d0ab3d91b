// SPDX-License-Identifier: Apache-2.0

// How requests come: what ibv_post_* and the other functions do that a context has pointers to.

#include <cerrno>
#include <span>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

template <typename Request>
std::span<const ibv_sge> SgesOf(const Request& request) {
  return {request.sg_list, static_cast<size_t>(request.num_sge)};
}

// 0: it has been taken.
int TakeSend(StandInPair* pair, const ibv_send_wr& request) {
  if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR) return EINVAL;
  if (pair->sends_posted - pair->sends_done >= pair->cap.max_send_wr) return ENOMEM;
  const std::span<const ibv_sge> sges = SgesOf(request);
  if (sges.size() > pair->cap.max_send_sge) return EINVAL;
  PostedSend send = {.request = request, .sges = {sges.begin(), sges.end()}};
  send.request.next = nullptr;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& sge : sges) {
      const auto* const first = reinterpret_cast<const uint8_t*>(sge.addr);
      send.inline_data.insert(send.inline_data.end(), first, first + sge.length);
    }
    if (send.inline_data.size() > pair->cap.max_inline_data) return EINVAL;
  }
  send.end = ++pair->sends_posted;
  pair->sends.push_back(std::move(send));
  return 0;
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** refused) {
  const Call call("ibv_post_send");
  auto* const pair = static_cast<StandInPair*>(qp);
  int error = call.error();
  *refused = request;
  for (; error == 0 && request != nullptr; request = request->next) {
    *refused = request;
    error = TakeSend(pair, *request);
  }
  if (pair->state == IBV_QPS_ERR) {
    FailPair(pair);
  } else {
    RunSends(pair);
  }
  return error;
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** refused) {
  const Call call("ibv_post_recv");
  auto* const pair = static_cast<StandInPair*>(qp);
  int error = call.error();
  *refused = request;
  for (; error == 0 && request != nullptr; request = request->next) {
    *refused = request;
    const std::span<const ibv_sge> sges = SgesOf(*request);
    if (pair->srq != nullptr || pair->state == IBV_QPS_RESET || sges.size() > pair->cap.max_recv_sge) {
      error = EINVAL;
    } else if (pair->taken_receives >= pair->cap.max_recv_wr) {
      error = ENOMEM;
    } else {
      pair->receives.push_back({.id = request->wr_id, .sges = {sges.begin(), sges.end()}});
      ++pair->taken_receives;
    }
  }
  if (pair->state == IBV_QPS_ERR) {
    FailPair(pair);
  } else {
    RunSendsTo(*pair);
  }
  return error;
}

int PostShared(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** refused) {
  Call call("ibv_post_srq_recv");
  auto* const shared = static_cast<StandInShared*>(srq);
  int error = call.error();
  *refused = request;
  for (; error == 0 && request != nullptr; request = request->next) {
    *refused = request;
    const std::span<const ibv_sge> sges = SgesOf(*request);
    if (sges.size() > shared->max_sge) {
      error = EINVAL;
    } else if (shared->taken_places >= shared->depth) {
      error = ENOMEM;
    } else {
      shared->receives.push_back({.id = request->wr_id, .sges = {sges.begin(), sges.end()}});
      ++shared->taken_places;
    }
  }
  for (const auto& [number, pair] : call->pairs) {
    if (pair->srq == srq) RunSendsTo(*pair);
  }
  return error;
}

}  // namespace

void FillOperations(StandInContext* context) {
  ibv_context_ops& operations = context->context.ops;
  operations.alloc_mw = MakeWindow;
  operations.dealloc_mw = FreeWindow;
  operations.poll_cq = PollQueue;
  operations.req_notify_cq = ArmQueue;
  operations.post_srq_recv = PostShared;
  operations.post_send = PostSend;
  operations.post_recv = PostReceive;
}

}  // namespace rdmabroker::verbs
