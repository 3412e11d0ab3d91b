// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/testing/stand_in.h"

#include <mutex>
#include <utility>

#include "dataplane/verbs/testing/stand_in_device.h"

namespace rdmabroker::verbs {

void StandIn::Reset() {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.flush = Flush::kAtOnce;
  device.failures.clear();
  device.calls.clear();
  device.afterwards.clear();
}

void StandIn::FailNext(const std::string& function, int error, int others) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.failures[function] = {error, others};
}

int StandIn::Calls(const std::string& function) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.calls[function];
}

void StandIn::CallAfter(const std::string& function, std::function<void()> callback) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.afterwards[function] = std::move(callback);
}

void StandIn::SetFlush(Flush flush) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.flush = flush;
}

void StandIn::Push(uint32_t number, bool receive, ibv_wc completion) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  const StandInPair& pair = *device.pairs.at(number);
  completion.qp_num = number;
  AddCompletion(static_cast<StandInQueue*>(receive ? pair.recv_cq : pair.send_cq), {.wc = completion});
}

void StandIn::Raise(uint32_t number, ibv_event_type type) {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  StandInPair* const pair = device.pairs.at(number);
  ibv_async_event event = {};
  event.event_type = type;
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      event.element.cq = pair->recv_cq;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      event.element.srq = pair->srq;
      break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      event.element.port_num = 1;
      break;
    default:
      event.element.qp = pair;
  }
  RaiseEvent(pair->context, event);
}

size_t StandIn::Objects() {
  StandInDevice& device = StandInDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.objects;
}

}  // namespace rdmabroker::verbs
