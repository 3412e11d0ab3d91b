// SPDX-License-Identifier: Apache-2.0

// Completion queues and their channels.

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

// A place in a queue is taken until the completion is polled that says it is not.
void FreePlaces(StandInDevice& device, const Completion& completion) {
  for (StandInShared* const shared : device.shared) {
    if (completion.shared == shared->serial) --shared->taken_places;
  }
  const auto found = device.pairs.find(completion.wc.qp_num);
  if (found == device.pairs.end() || found->second->serial != completion.pair) return;
  if (completion.sends_end != 0) {
    found->second->sends_done = completion.sends_end;
  } else if (completion.shared == 0) {
    --found->second->taken_receives;
  }
}

void TellChannel(StandInQueue* queue) {
  queue->armed = StandInQueue::Armed::kNot;
  if (queue->channel == nullptr) return;
  static_cast<StandInChannel*>(queue->channel)->events.push_back(queue);
  ::eventfd_write(queue->channel->fd, 1);
}

}  // namespace

void AddCompletion(StandInQueue* queue, const Completion& completion) {
  if (queue->overrun) return;
  if (queue->entries.size() >= static_cast<size_t>(queue->cqe)) {
    queue->overrun = true;
    ibv_async_event event = {};
    event.element.cq = queue;
    event.event_type = IBV_EVENT_CQ_ERR;
    return RaiseEvent(queue->context, event);
  }
  queue->entries.push_back(completion);
  const bool solicited = completion.solicited || completion.wc.status != IBV_WC_SUCCESS;
  const bool due =
      queue->armed == StandInQueue::Armed::kAny || (queue->armed == StandInQueue::Armed::kSolicited && solicited);
  if (due) TellChannel(queue);
}

int PollQueue(ibv_cq* cq, int most, ibv_wc* completions) {
  Call call("ibv_poll_cq");
  if (call.error() != 0) return -call.error();
  auto* const queue = static_cast<StandInQueue*>(cq);
  int count = 0;
  for (; count < most && !queue->entries.empty(); ++count) {
    FreePlaces(StandInDevice::Get(), queue->entries.front());
    completions[count] = queue->entries.front().wc;
    queue->entries.pop_front();
  }
  return count;
}

int ArmQueue(ibv_cq* cq, int solicited_only) {
  const Call call("ibv_req_notify_cq");
  if (call.error() != 0) return call.error();
  auto* const queue = static_cast<StandInQueue*>(cq);
  queue->armed =
      std::max(queue->armed, solicited_only != 0 ? StandInQueue::Armed::kSolicited : StandInQueue::Armed::kAny);
  return 0;
}

}  // namespace rdmabroker::verbs

using rdmabroker::verbs::AwaitEvents;
using rdmabroker::verbs::Call;
using rdmabroker::verbs::kMostCqEntries;
using rdmabroker::verbs::StandInChannel;
using rdmabroker::verbs::StandInQueue;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  Call call("ibv_create_comp_channel");
  if (call.error() != 0) return Call::Fail(call.error());
  const int events = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (events < 0) return nullptr;
  auto* const made = new StandInChannel();
  made->context = context;
  made->fd = events;
  ++call->objects;
  return made;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  Call call("ibv_destroy_comp_channel");
  if (channel->refcnt > 0) return EBUSY;
  --call->objects;
  ::close(channel->fd);
  delete static_cast<StandInChannel*>(channel);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel, int) {
  Call call("ibv_create_cq");
  if (call.error() != 0) return Call::Fail(call.error());
  if (entries <= 0 || entries > kMostCqEntries) return Call::Fail(EINVAL);
  auto* const made = new StandInQueue();
  made->context = context;
  made->channel = channel;
  made->cq_context = cookie;
  made->cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  ++call->objects;
  return made;
}

int ibv_resize_cq(ibv_cq* cq, int entries) {
  const Call call("ibv_resize_cq");
  if (call.error() != 0) return call.error();
  const size_t filled = static_cast<StandInQueue*>(cq)->entries.size();
  if (entries <= 0 || entries > kMostCqEntries || static_cast<size_t>(entries) < filled) return EINVAL;
  cq->cqe = entries;
  return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
  Call call("ibv_destroy_cq");
  if (call.error() != 0) return call.error();
  auto* const queue = static_cast<StandInQueue*>(cq);
  if (queue->users > 0) return EBUSY;
  if (cq->channel != nullptr) {
    std::erase(static_cast<StandInChannel*>(cq->channel)->events, cq);
    --cq->channel->refcnt;
  }
  AwaitEvents(&call, cq->context, queue, queue->async_events);
  AwaitEvents(&call, cq->context, queue, queue->completion_events);
  --call->objects;
  delete queue;
  return 0;
}

// The descriptor counts events, also those that were taken back since.
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cookie) {
  while (true) {
    eventfd_t one = 0;
    if (::eventfd_read(channel->fd, &one) != 0) return -1;
    const Call call("ibv_get_cq_event");
    if (call.error() != 0) {
      errno = call.error();
      return -1;
    }
    auto& events = static_cast<StandInChannel*>(channel)->events;
    if (events.empty()) continue;
    *cq = events.front();
    *cookie = (*cq)->cq_context;
    events.pop_front();
    ++static_cast<StandInQueue*>(*cq)->completion_events.out;
    return 0;
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  Call call("ibv_ack_cq_events");
  static_cast<StandInQueue*>(cq)->completion_events.acknowledged += count;
  call->acknowledged.notify_all();
}

}  // extern "C"
