// SPDX-License-Identifier: Apache-2.0

// What requests do.

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

using std::chrono::microseconds;

// How long a sender waits for a receive before it tries once more, in tens of microseconds, by the number of
// ibv_modify_qp(3).
constexpr std::array<uint32_t, 32> kReceiverTimers = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr uint8_t kRetriesForever = 7;

// An adapter may say anything in the other fields of a completion that failed.
ibv_wc Failed(ibv_wc_status status) {
  ibv_wc completion = {};
  completion.status = status;
  completion.opcode = IBV_WC_TSO;
  completion.vendor_err = 0x100u + status;
  completion.byte_len = ~0u;
  completion.wc_flags = IBV_WC_WITH_IMM | IBV_WC_WITH_INV;
  return completion;
}

ibv_wc_opcode OpcodeOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

void CompleteSend(StandInPair* pair, const PostedSend& send, ibv_wc_status status) {
  ibv_wc completion = {};
  if (status == IBV_WC_SUCCESS) {
    const bool signalled = pair->signals_all || (send.request.send_flags & IBV_SEND_SIGNALED) != 0;
    if (!signalled) return;
    completion.opcode = OpcodeOf(send.request.opcode);
  } else {
    completion = Failed(status);
  }
  completion.wr_id = send.request.wr_id;
  completion.qp_num = pair->qp_num;
  AddCompletion(static_cast<StandInQueue*>(pair->send_cq),
                {.wc = completion, .pair = pair->serial, .sends_end = send.end});
}

// Null: nobody answers.
StandInPair* PeerOf(const StandInPair& pair) {
  const auto& pairs = StandInDevice::Get().pairs;
  const auto found = pairs.find(pair.peer);
  if (found == pairs.end() || found->second->peer != pair.qp_num) return nullptr;
  return found->second->state == IBV_QPS_RTR || found->second->state == IBV_QPS_RTS ? found->second : nullptr;
}

std::optional<PostedReceive> TakeReceive(StandInPair* pair) {
  auto* const shared = static_cast<StandInShared*>(pair->srq);
  auto& receives = shared != nullptr ? shared->receives : pair->receives;
  if (receives.empty()) return std::nullopt;
  PostedReceive receive = std::move(receives.front());
  receives.pop_front();
  if (shared != nullptr) TellOfLimit(shared);
  return receive;
}

// The peer has no use for the request, and says so: how its receive ends, if there is one, and how the request does.
ibv_wc_status Refuse(StandInPair* peer, const PostedReceive& receive, ibv_wc_status at_peer, ibv_wc_status here) {
  CompleteReceive(peer, receive, Failed(at_peer), false);
  FailPair(peer);
  return here;
}

// Nothing: there is no receive for it yet.
std::optional<ibv_wc_status> Deliver(StandInPair* peer, const ibv_send_wr& request, const std::vector<uint8_t>& bytes) {
  const auto receive = TakeReceive(peer);
  if (!receive) return std::nullopt;
  const bool writes = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  size_t room = 0;
  for (const ibv_sge& sge : receive->sges) room += sge.length;
  if (!writes && bytes.size() > room) return Refuse(peer, *receive, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (!writes && !Scatter(*peer, bytes, receive->sges)) {
    return Refuse(peer, *receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  }
  ibv_wc completion = {};
  completion.opcode = writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  completion.byte_len = static_cast<uint32_t>(bytes.size());
  if (request.opcode == IBV_WR_SEND_WITH_INV) {
    if (!InvalidateWindow(*peer, request.invalidate_rkey)) {
      return Refuse(peer, *receive, IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_ACCESS_ERR);
    }
    completion.wc_flags = IBV_WC_WITH_INV;
    completion.invalidated_rkey = request.invalidate_rkey;
  } else if (request.opcode != IBV_WR_SEND) {
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = request.imm_data;
  }
  CompleteReceive(peer, *receive, completion, (request.send_flags & IBV_SEND_SOLICITED) != 0);
  return IBV_WC_SUCCESS;
}

ibv_wc_status Object(StandInPair* peer) {
  RaisePairEvent(peer, IBV_EVENT_QP_ACCESS_ERR);
  FailPair(peer);
  return IBV_WC_REM_ACCESS_ERR;
}

ibv_wc_status Read(const StandInPair& pair, StandInPair* peer, const PostedSend& send) {
  uint64_t length = 0;
  for (const ibv_sge& sge : send.sges) length += sge.length;
  const auto& remote = send.request.wr.rdma;
  if (!RemoteAllows(*peer, remote.rkey, remote.remote_addr, length, IBV_ACCESS_REMOTE_READ)) return Object(peer);
  const auto* const first = reinterpret_cast<const uint8_t*>(remote.remote_addr);
  return Scatter(pair, std::vector<uint8_t>(first, first + length), send.sges) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

bool Write(StandInPair* peer, const ibv_send_wr& request, const std::vector<uint8_t>& bytes) {
  const auto& remote = request.wr.rdma;
  if (!RemoteAllows(*peer, remote.rkey, remote.remote_addr, bytes.size(), IBV_ACCESS_REMOTE_WRITE)) return false;
  if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(remote.remote_addr), bytes.data(), bytes.size());
  return true;
}

// Nothing: it waits for a receive.
std::optional<ibv_wc_status> CarryOut(StandInPair* pair, const PostedSend& send) {
  const ibv_send_wr& request = send.request;
  if (request.opcode == IBV_WR_BIND_MW) return BindWindow(*pair, request);
  if (request.opcode == IBV_WR_LOCAL_INV) {
    return InvalidateWindow(*pair, request.invalidate_rkey) ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR;
  }
  StandInPair* const peer = PeerOf(*pair);
  if (request.opcode == IBV_WR_RDMA_READ) return peer == nullptr ? IBV_WC_RETRY_EXC_ERR : Read(*pair, peer, send);
  const bool copied = (request.send_flags & IBV_SEND_INLINE) != 0;
  const auto bytes = copied ? std::optional(send.inline_data) : Gather(*pair, send.sges);
  if (!bytes) return IBV_WC_LOC_PROT_ERR;
  if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
  const bool writes = request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (writes && !Write(peer, request, *bytes)) return Object(peer);
  return request.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_SUCCESS : Deliver(peer, request, *bytes);
}

void RunRetries(StandInContext* context) {
  StandInDevice& device = StandInDevice::Get();
  std::unique_lock lock(device.mutex);
  while (!context->closing) {
    std::optional<RetryClock::time_point> next;
    for (const auto& [number, pair] : device.pairs) {
      if (pair->context != &context->context || !pair->gives_up_at) continue;
      if (*pair->gives_up_at <= RetryClock::now()) {
        RunSends(pair);
      } else if (!next || *pair->gives_up_at < *next) {
        next = pair->gives_up_at;
      }
    }
    if (next) {
      device.retries_changed.wait_until(lock, *next);
    } else {
      device.retries_changed.wait(lock);
    }
  }
}

// Whether the first send waits on for a receive.
bool Waits(StandInPair* pair) {
  if (pair->receiver_retries == kRetriesForever) return true;
  if (pair->gives_up_at) return RetryClock::now() < *pair->gives_up_at;
  if (pair->receiver_retries == 0) return false;
  const StandInPair* const peer = PeerOf(*pair);
  const uint32_t timer = kReceiverTimers[(peer == nullptr ? 0u : peer->receiver_timer) % kReceiverTimers.size()];
  pair->gives_up_at = RetryClock::now() + microseconds(10) * timer * pair->receiver_retries;
  StandInContext* const context = ContextOf(pair->context);
  if (!context->retries.joinable()) context->retries = std::thread([context] { RunRetries(context); });
  StandInDevice::Get().retries_changed.notify_all();
  return true;
}

}  // namespace

void TellOfLimit(StandInShared* shared) {
  if (shared->receives.size() >= shared->limit) return;
  shared->limit = 0;
  ibv_async_event event = {};
  event.element.srq = shared;
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  RaiseEvent(shared->context, event);
}

void CompleteReceive(StandInPair* pair, const PostedReceive& receive, ibv_wc completion, bool solicited) {
  completion.wr_id = receive.id;
  completion.qp_num = pair->qp_num;
  const auto* const shared = static_cast<StandInShared*>(pair->srq);
  AddCompletion(static_cast<StandInQueue*>(pair->recv_cq), {.wc = completion,
                                                            .solicited = solicited,
                                                            .pair = pair->serial,
                                                            .shared = shared == nullptr ? 0 : shared->serial});
}

void RunSends(StandInPair* pair) {
  while (!pair->sends.empty() && pair->state == IBV_QPS_RTS) {
    auto status = CarryOut(pair, pair->sends.front());
    if (!status && Waits(pair)) return;
    pair->gives_up_at.reset();
    const PostedSend send = std::move(pair->sends.front());
    pair->sends.pop_front();
    CompleteSend(pair, send, status.value_or(IBV_WC_RNR_RETRY_EXC_ERR));
    if (status != IBV_WC_SUCCESS) FailPair(pair);
  }
}

void FailPair(StandInPair* pair) {
  const bool first = std::exchange(pair->state, IBV_QPS_ERR) != IBV_QPS_ERR;
  pair->gives_up_at.reset();
  if (first && pair->srq != nullptr) RaisePairEvent(pair, IBV_EVENT_QP_LAST_WQE_REACHED);
  if (StandInDevice::Get().flush == StandIn::Flush::kAtOnce) FlushPair(pair);
}

void FlushPair(StandInPair* pair) {
  for (const PostedReceive& receive : std::exchange(pair->receives, {})) {
    CompleteReceive(pair, receive, Failed(IBV_WC_WR_FLUSH_ERR), false);
  }
  for (const PostedSend& send : std::exchange(pair->sends, {})) CompleteSend(pair, send, IBV_WC_WR_FLUSH_ERR);
}

void RunSendsTo(const StandInPair& pair) {
  const auto& pairs = StandInDevice::Get().pairs;
  const auto found = pairs.find(pair.peer);
  if (found != pairs.end() && PeerOf(*found->second) == &pair) RunSends(found->second);
}

}  // namespace rdmabroker::verbs
