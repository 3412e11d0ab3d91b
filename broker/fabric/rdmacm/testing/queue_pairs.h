// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_QUEUE_PAIRS_H_
#define BROKER_FABRIC_RDMACM_TESTING_QUEUE_PAIRS_H_

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "broker/core/ids.h"
#include "dataplane/verbs/device/device.h"

namespace rdmabroker {

// A client's queue pairs.
class QueuePairs {
 public:
  // On the machine's first device, or another. False where there is none.
  bool Open(int index = 0) {
    int count = 0;
    const Owned<ibv_device*, ibv_free_device_list> list(::ibv_get_device_list(&count));
    if (list == nullptr || index >= count) return false;
    index_ = index;
    Opened opened;
    opened.context.reset(::ibv_open_device(list.get()[index]));
    if (opened.context == nullptr) return false;
    opened.domain.reset(::ibv_alloc_pd(opened.context.get()));
    opened.queue.reset(::ibv_create_cq(opened.context.get(), 16, nullptr, nullptr, 0));
    opened_.push_back(std::move(opened));
    return true;
  }

  QpNumber Make() {
    if (made_.size() == opened_.size() * kEach) {
      EXPECT_TRUE(Open(index_));
    }
    const Opened& opened = opened_.back();
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = opened.queue.get();
    attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attributes.qp_type = IBV_QPT_RC;
    Owned<ibv_qp, ibv_destroy_qp> made(
        verbs::MakeQueuePair({.hides_queue_pairs = iwarp()}, opened.domain.get(), attributes));
    EXPECT_NE(made, nullptr);
    if (made == nullptr) return {};
    const QpNumber number{made->qp_num};
    made_.push_back(std::move(made));
    return number;
  }

  void DestroyLast() { made_.pop_back(); }
  void FailLast() {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(::ibv_modify_qp(made_.back().get(), &attributes, IBV_QP_STATE), 0);
  }
  // As a client makes it ready for receives.
  bool InitialiseLast() {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    const int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | (iwarp() ? 0 : IBV_QP_PORT | IBV_QP_PKEY_INDEX);
    return ::ibv_modify_qp(made_.back().get(), &attributes, mask) == 0;
  }

  // As ibv_get_device_index(3).
  uint32_t device_index() const {
    return static_cast<uint32_t>(::ibv_get_device_index(opened_.front().context->device));
  }

  bool iwarp() const { return opened_.front().context->device->transport_type == IBV_TRANSPORT_IWARP; }

 private:
  template <auto Destroy>
  struct Destroyer {
    template <typename Object>
    void operator()(Object* object) const {
      Destroy(object);
    }
  };
  template <typename Object, auto Destroy>
  using Owned = std::unique_ptr<Object, Destroyer<Destroy>>;

  struct Opened {
    Owned<ibv_context, ibv_close_device> context;
    Owned<ibv_pd, ibv_dealloc_pd> domain;
    Owned<ibv_cq, ibv_destroy_cq> queue;
  };
  // siw's library makes 71 queue pairs and then none, without an error.
  static constexpr size_t kEach = 64;

  int index_ = 0;
  std::vector<Opened> opened_;
  std::vector<Owned<ibv_qp, ibv_destroy_qp>> made_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_QUEUE_PAIRS_H_
