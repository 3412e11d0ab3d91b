// SPDX-License-Identifier: Apache-2.0

// Asynchronous events.

#include <sys/eventfd.h>

#include <algorithm>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {
namespace {

bool IsOfQueue(ibv_event_type type) { return type == IBV_EVENT_CQ_ERR; }

bool IsOfShared(ibv_event_type type) { return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED; }

bool IsOfPair(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

const void* ObjectOf(const ibv_async_event& event) {
  if (IsOfQueue(event.event_type)) return static_cast<StandInQueue*>(event.element.cq);
  if (IsOfShared(event.event_type)) return static_cast<StandInShared*>(event.element.srq);
  if (IsOfPair(event.event_type)) return static_cast<StandInPair*>(event.element.qp);
  return nullptr;
}

// Null: the event is of the device.
Handed* HandedOf(const ibv_async_event& event) {
  if (IsOfQueue(event.event_type)) return &static_cast<StandInQueue*>(event.element.cq)->async_events;
  if (IsOfShared(event.event_type)) return &static_cast<StandInShared*>(event.element.srq)->async_events;
  if (IsOfPair(event.event_type)) return &static_cast<StandInPair*>(event.element.qp)->async_events;
  return nullptr;
}

}  // namespace

void RaiseEvent(ibv_context* context, const ibv_async_event& event) {
  ContextOf(context)->events.push_back(event);
  ::eventfd_write(context->async_fd, 1);
}

void RaisePairEvent(StandInPair* pair, ibv_event_type type) {
  ibv_async_event event = {};
  event.element.qp = pair;
  event.event_type = type;
  RaiseEvent(pair->context, event);
}

void AwaitEvents(Call* call, ibv_context* context, const void* object, const Handed& handed) {
  std::erase_if(ContextOf(context)->events,
                [object](const ibv_async_event& event) { return ObjectOf(event) == object; });
  (*call)->acknowledged.wait(call->lock(), [&handed] { return handed.acknowledged == handed.out; });
}

}  // namespace rdmabroker::verbs

using rdmabroker::verbs::Call;
using rdmabroker::verbs::ContextOf;

extern "C" {

// The descriptor counts events, also those that were taken back since.
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  while (true) {
    eventfd_t one = 0;
    if (::eventfd_read(context->async_fd, &one) != 0) return -1;
    const Call call("ibv_get_async_event");
    if (call.error() != 0) {
      errno = call.error();
      return -1;
    }
    auto& events = ContextOf(context)->events;
    if (events.empty()) continue;
    *event = events.front();
    events.pop_front();
    if (auto* const handed = rdmabroker::verbs::HandedOf(*event)) ++handed->out;
    return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  Call call("ibv_ack_async_event");
  if (auto* const handed = rdmabroker::verbs::HandedOf(*event)) ++handed->acknowledged;
  call->acknowledged.notify_all();
}

}  // extern "C"
