// SPDX-License-Identifier: Apache-2.0

// On the one RDMA device of this machine: tests/vm makes such a machine.

#include "broker/fabric/rdmacm/qp_owner.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace rdmabroker {
namespace {

// A queue pair on the machine's first device, for as long as this lives.
class OwnQueuePair {
 public:
  OwnQueuePair() {
    ibv_device** const list = ::ibv_get_device_list(nullptr);
    if (list == nullptr || *list == nullptr) return;
    device_index_ = static_cast<uint32_t>(::ibv_get_device_index(*list));
    iwarp_ = (*list)->transport_type == IBV_TRANSPORT_IWARP;
    context_ = ::ibv_open_device(*list);
    ::ibv_free_device_list(list);
    domain_ = ::ibv_alloc_pd(context_);
    queue_ = ::ibv_create_cq(context_, 2, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attributes.qp_type = IBV_QPT_RC;
    queue_pair_ = ::ibv_create_qp(domain_, &attributes);
  }
  ~OwnQueuePair() {
    if (queue_pair_ != nullptr) ::ibv_destroy_qp(queue_pair_);
    if (queue_ != nullptr) ::ibv_destroy_cq(queue_);
    if (domain_ != nullptr) ::ibv_dealloc_pd(domain_);
    if (context_ != nullptr) ::ibv_close_device(context_);
  }
  OwnQueuePair(const OwnQueuePair&) = delete;
  OwnQueuePair& operator=(const OwnQueuePair&) = delete;

  // As a client makes it ready for receives.
  bool Initialise() const {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    const int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | (iwarp_ ? 0 : IBV_QP_PORT | IBV_QP_PKEY_INDEX);
    return ::ibv_modify_qp(queue_pair_, &attributes, mask) == 0;
  }
  bool made() const { return queue_pair_ != nullptr; }
  QpNumber number() const { return {queue_pair_->qp_num}; }
  uint32_t device_index() const { return device_index_; }
  QpOwner OwnerFor(pid_t process) const { return FindQpOwner(device_index_, number(), process); }

 private:
  uint32_t device_index_ = 0;
  bool iwarp_ = false;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
};

TEST(QpOwner, AQueuePairIsItsMakersInEachState) {
  const OwnQueuePair own;
  ASSERT_TRUE(own.made()) << "there is no RDMA device";
  EXPECT_EQ(own.OwnerFor(::getpid()), QpOwner::kThisProcess);
  ASSERT_TRUE(own.Initialise());
  EXPECT_EQ(own.OwnerFor(::getpid()), QpOwner::kThisProcess);
}

TEST(QpOwner, AQueuePairIsAnothersForAProcessThatDidNotMakeIt) {
  const OwnQueuePair own;
  ASSERT_TRUE(own.made()) << "there is no RDMA device";
  EXPECT_EQ(own.OwnerFor(::getppid()), QpOwner::kAnother);
  ASSERT_TRUE(own.Initialise());
  EXPECT_EQ(own.OwnerFor(::getppid()), QpOwner::kAnother);
  EXPECT_EQ(own.OwnerFor(0), QpOwner::kNotShown) << "a process that is not visible";
}

TEST(QpOwner, ANumberThatNoQueuePairHasIsNobodys) {
  const OwnQueuePair own;
  ASSERT_TRUE(own.made()) << "there is no RDMA device";
  EXPECT_EQ(FindQpOwner(own.device_index(), {0xABCDE}, ::getpid()), QpOwner::kNobody);
}

TEST(QpOwner, AQueuePairOfAnotherThreadOfTheProcessIsItsAsLongAsThatLives) {
  std::optional<OwnQueuePair> own;
  std::string thread;
  std::thread([&] {
    own.emplace();
    thread = "/proc/self/task/" + std::to_string(::gettid());
    ASSERT_TRUE(own->made()) << "there is no RDMA device";
    QpOwner seen = QpOwner::kNotShown;
    std::thread([&] { seen = own->OwnerFor(::getpid()); }).join();
    EXPECT_EQ(seen, QpOwner::kThisProcess);
  }).join();
  ASSERT_TRUE(own->made());
  // A thread may be joined a moment before the kernel is done with it.
  while (::access(thread.c_str(), F_OK) == 0) std::this_thread::yield();
  EXPECT_NE(own->OwnerFor(::getpid()), QpOwner::kThisProcess) << "nobody can tell whose it is";
}

}  // namespace
}  // namespace rdmabroker
