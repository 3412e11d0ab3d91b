// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/testing/stand_in_device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/verbs/testing/stand_in.h"

namespace rdmabroker::verbs {
namespace {

// Nobody's OUI, and not one by which the data path knows a software device.
constexpr uint32_t kVendor = 0x00abcd;

ibv_device* TheDevice() {
  static ibv_device& device = *[] {
    auto* const made = new ibv_device();
    made->node_type = IBV_NODE_CA;
    made->transport_type = IBV_TRANSPORT_IB;
    std::strncpy(made->name, StandIn::kName, sizeof made->name - 1);
    return made;
  }();
  return &device;
}

int QueryDeviceEx(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* device, size_t size) {
  const Call call("ibv_query_device_ex");
  if (call.error() != 0) return call.error();
  std::memset(device, 0, size);
  ibv_device_attr& attributes = device->orig_attr;
  attributes.max_mr_size = uint64_t{1} << 40;
  attributes.vendor_id = kVendor;
  attributes.vendor_part_id = 1;
  attributes.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE;
  attributes.max_qp = 1 << 16;
  attributes.max_qp_wr = kMostRequests;
  attributes.max_sge = kMostSges;
  attributes.max_sge_rd = kMostSges;
  attributes.max_cq = 1 << 16;
  attributes.max_cqe = kMostCqEntries;
  attributes.max_mr = 1 << 16;
  attributes.max_pd = 1 << 16;
  attributes.max_qp_rd_atom = 16;
  attributes.max_qp_init_rd_atom = 16;
  attributes.max_mw = 1 << 16;
  attributes.max_srq = 1 << 16;
  attributes.max_srq_wr = kMostRequests;
  attributes.max_srq_sge = kMostSges;
  attributes.phys_port_cnt = 1;
  return 0;
}

int QueryPort(ibv_context*, uint8_t number, ibv_port_attr* port, size_t size) {
  const Call call("ibv_query_port");
  if (call.error() != 0) return call.error();
  if (number != 1) return EINVAL;
  std::memset(port, 0, size);
  port->state = IBV_PORT_ACTIVE;
  port->max_mtu = IBV_MTU_4096;
  port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = 1;
  port->pkey_tbl_len = 1;
  port->max_msg_sz = 1u << 30;
  port->lid = 1;
  port->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

thread_local int calls_here = 0;

}  // namespace

bool StandIn::IsCalled() { return calls_here > 0; }

Call::Mark::Mark() { ++calls_here; }
Call::Mark::~Mark() { --calls_here; }

StandInDevice& StandInDevice::Get() {
  static StandInDevice& device = *new StandInDevice;
  return device;
}

Call::Call(const char* function) : device_(StandInDevice::Get()), lock_(device_.mutex) {
  ++device_.calls[function];
  if (auto wanted = device_.afterwards.extract(function)) afterwards_ = std::move(wanted.mapped());
  const auto found = device_.failures.find(function);
  if (found == device_.failures.end() || found->second.others-- > 0) return;
  error_ = found->second.error;
  device_.failures.erase(found);
}

Call::~Call() {
  lock_.unlock();
  if (afterwards_) afterwards_();
}

std::nullptr_t Call::Fail(int error) {
  errno = error;
  return nullptr;
}

StandInContext* ContextOf(ibv_context* context) { return static_cast<StandInContext*>(verbs_get_ctx(context)); }

}  // namespace rdmabroker::verbs

using rdmabroker::verbs::Call;
using rdmabroker::verbs::ContextOf;
using rdmabroker::verbs::StandInContext;
using rdmabroker::verbs::TheDevice;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const Call call("ibv_get_device_list");
  if (call.error() != 0) return Call::Fail(call.error());
  if (count != nullptr) *count = 1;
  return new ibv_device* [2] { TheDevice(), nullptr };
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

// The kernel knows none of it.
int ibv_get_device_index(ibv_device*) { return -1; }

ibv_context* ibv_open_device(ibv_device* device) {
  Call call("ibv_open_device");
  if (call.error() != 0) return Call::Fail(call.error());
  const int events = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (events < 0) return nullptr;
  auto* const made = new StandInContext();
  made->sz = sizeof(verbs_context);
  made->query_device_ex = rdmabroker::verbs::QueryDeviceEx;
  made->query_port = rdmabroker::verbs::QueryPort;
  made->context.device = device;
  made->context.cmd_fd = -1;
  made->context.async_fd = events;
  made->context.num_comp_vectors = 1;
  made->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  rdmabroker::verbs::FillOperations(made);
  ++call->objects;
  return &made->context;
}

int ibv_close_device(ibv_context* context) {
  StandInContext* const closed = ContextOf(context);
  {
    Call call("ibv_close_device");
    closed->closing = true;
    call->retries_changed.notify_all();
    --call->objects;
  }
  if (closed->retries.joinable()) closed->retries.join();
  ::close(context->async_fd);
  delete closed;
  return 0;
}

}  // extern "C"
