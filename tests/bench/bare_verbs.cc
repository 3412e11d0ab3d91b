// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/bare_verbs.h"

#include <optional>

#include "dataplane/verbs/qp_attributes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

ibv_context* Open(const std::string& name) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count; ++i) {
    if (ibv_get_device_name(devices[i]) == name) context = ibv_open_device(devices[i]);
  }
  ibv_free_device_list(devices);
  Require(context != nullptr, "cannot open the device " + name);
  return context;
}

}  // namespace

BareDevice::BareDevice(const std::string& name) : context_(Open(name)), domain_(ibv_alloc_pd(context_)) {
  Require(domain_ != nullptr, "ibv_alloc_pd");
}

BareDevice::~BareDevice() {
  ibv_dealloc_pd(domain_);
  ibv_close_device(context_);
}

BareQueuePair::BareQueuePair(const BareDevice& device, ibv_cq* queue, uint32_t depth) {
  ibv_qp_init_attr wanted = {};
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1};
  queue_pair_ = ibv_create_qp(device.domain(), &wanted);
  Require(queue_pair_ != nullptr, "ibv_create_qp");
  // Receives can be posted from INIT on.
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  const int of_ports = device.iwarp() ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  RequireNoError(ibv_modify_qp(queue_pair_, &attributes, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | of_ports),
                 "ibv_modify_qp");
}

BareQueuePair::~BareQueuePair() { ibv_destroy_qp(queue_pair_); }

void BareQueuePair::Move(const QpAttributes& step) {
  std::optional<ibv_qp_attr> attributes = verbs::AttributesOf(step);
  Require(attributes.has_value(), "a transition that no queue pair makes");
  RequireNoError(ibv_modify_qp(queue_pair_, &*attributes, static_cast<int>(step.mask)), "ibv_modify_qp");
}

BareEnd::BareEnd(const BareDevice& device, uint32_t depth, size_t buffer_size)
    : queue_(ibv_create_cq(device.context(), static_cast<int>(4 * depth), nullptr, nullptr, 0)),
      buffer_(buffer_size),
      queue_pair_(device, queue_, depth) {
  region_ =
      ibv_reg_mr(device.domain(), buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Require(region_ != nullptr, "ibv_reg_mr");
}

// The queue pair goes after this, and its completion queue with the process.
BareEnd::~BareEnd() { ibv_dereg_mr(region_); }

ibv_sge BareEnd::Piece(uint32_t length) {
  return {.addr = reinterpret_cast<uintptr_t>(buffer_.data()), .length = length, .lkey = region_->lkey};
}

void BareEnd::Post(ibv_wr_opcode opcode, uint32_t length, const void* target, uint32_t key) {
  ibv_sge piece = Piece(length);
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = reinterpret_cast<uintptr_t>(target), .rkey = key};
  ibv_send_wr* refused = nullptr;
  RequireNoError(ibv_post_send(queue_pair_.get(), &request, &refused), "ibv_post_send");
}

void BareEnd::PostReceive(uint32_t length) {
  ibv_sge piece = Piece(length);
  ibv_recv_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  RequireNoError(ibv_post_recv(queue_pair_.get(), &request, &refused), "ibv_post_recv");
}

void BareEnd::Await(size_t results) {
  while (ahead_ < results) {
    const int got = ibv_poll_cq(queue_, static_cast<int>(batch_.size()), batch_.data());
    Require(got >= 0, "ibv_poll_cq");
    for (int i = 0; i < got; ++i) {
      const ibv_wc_status status = batch_[static_cast<size_t>(i)].status;
      if (status != IBV_WC_SUCCESS) Fail(std::string("a request failed: ") + ibv_wc_status_str(status));
    }
    ahead_ += static_cast<size_t>(got);
  }
  ahead_ -= results;
}

}  // namespace rdmabroker::bench
