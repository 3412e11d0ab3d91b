// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/device.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "dataplane/refusal.h"
#include "dataplane/verbs/device/device_attributes.h"
#include "dataplane/verbs/device/device_name.h"
#include "dataplane/verbs/device/queue_pair_maker.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

// Where the kernel does not tell it: libibverbs' own.
std::string NameOf(ibv_device* device) {
  std::string name;
  ReadDeviceName(device, &name);
  return name;
}

// Where the trials begin, to halve until something can be made: deeper queues than these are memory that nothing gains
// from.
constexpr uint32_t kMostDepth = 16384;

constexpr uint8_t kPort = 1;

// Each that is not shown keeps its number from the next one, and it is rare that there are two.
constexpr size_t kMostHidden = 16;

template <typename Object, int (*Destroy)(Object*)>
struct Destroyer {
  void operator()(Object* object) const { Destroy(object); }
};
using Domain = std::unique_ptr<ibv_pd, Destroyer<ibv_pd, ibv_dealloc_pd>>;
using Queue = std::unique_ptr<ibv_cq, Destroyer<ibv_cq, ibv_destroy_cq>>;
using QueuePairOwner = std::unique_ptr<ibv_qp, Destroyer<ibv_qp, ibv_destroy_qp>>;

struct ListFreer {
  void operator()(ibv_device** devices) const { ibv_free_device_list(devices); }
};
using DeviceList = std::unique_ptr<ibv_device*[], ListFreer>;

bool CanMakeQueuePair(ibv_pd* domain, ibv_cq* queue, uint32_t depth, uint32_t max_sge, uint32_t inline_data) {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = queue;
  attributes.recv_cq = queue;
  attributes.cap.max_send_wr = depth;
  attributes.cap.max_recv_wr = depth;
  attributes.cap.max_send_sge = max_sge;
  attributes.cap.max_recv_sge = max_sge;
  attributes.cap.max_inline_data = inline_data;
  attributes.qp_type = IBV_QPT_RC;
  return QueuePairOwner(ibv_create_qp(domain, &attributes)) != nullptr;
}

NdkStatus Try(ibv_context* context, const ibv_device_attr& device, DeviceTrials* trials) {
  const Domain domain(ibv_alloc_pd(context));
  if (domain == nullptr) return FromPointer(domain.get());
  const Queue queue(ibv_create_cq(context, 1, nullptr, nullptr, 0));
  if (queue == nullptr) return FromPointer(queue.get());
  trials->resizes_cqs = ibv_resize_cq(queue.get(), 2) == 0;
  const uint32_t max_sge = MaxSge(device);
  trials->inline_data = MostInlineData(device);
  while (trials->inline_data > 0 && !CanMakeQueuePair(domain.get(), queue.get(), 2, max_sge, trials->inline_data)) {
    trials->inline_data /= 2;
  }
  trials->depth = std::min(kMostDepth, static_cast<uint32_t>(std::max(device.max_qp_wr, 0)));
  while (trials->depth > 0 &&
         !CanMakeQueuePair(domain.get(), queue.get(), trials->depth, max_sge, trials->inline_data)) {
    trials->depth /= 2;
  }
  if (trials->depth > 0) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInsufficientResources,
                "the device makes not even the smallest queue pair: raise RLIMIT_MEMLOCK, or see what else uses it");
}

}  // namespace

void ContextCloser::operator()(ibv_context* context) const { ibv_close_device(context); }

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  int count = 0;
  const DeviceList devices(ibv_get_device_list(&count));
  if (devices == nullptr) return names;
  for (ibv_device* const device : std::span(devices.get(), static_cast<size_t>(count))) {
    names.push_back(NameOf(device));
  }
  return names;
}

NdkStatus OpenDevice(const std::string& name, DeviceContext* context) {
  int count = 0;
  const DeviceList devices(ibv_get_device_list(&count));
  if (devices == nullptr) {
    // A kernel without RDMA has no devices.
    if (errno != ENOSYS) return FromPointer(nullptr);
    return Refuse(NdkStatus::kObjectNameNotFound, "device %s: the kernel has no RDMA; load its modules", name);
  }
  std::optional<NdkStatus> status;
  for (ibv_device* const device : std::span(devices.get(), static_cast<size_t>(count))) {
    if (NameOf(device) != name) continue;
    context->reset(ibv_open_device(device));
    status = FromPointer(context->get());
  }
  if (status.has_value()) return *status;
  return Refuse(NdkStatus::kObjectNameNotFound,
                "device %s: libibverbs does not see it; install its driver's part for programs "
                "(ibverbs-providers), and let this process open /dev/infiniband",
                name);
}

ibv_qp* MakeQueuePair(const DeviceDescription& description, ibv_pd* domain, const ibv_qp_init_attr& attributes) {
  const auto index = static_cast<uint32_t>(ibv_get_device_index(domain->context->device));
  std::array<QueuePairOwner, kMostHidden> hidden;
  for (size_t count = 0;; ++count) {
    ibv_qp_init_attr wanted = attributes;
    QueuePairOwner made(ibv_create_qp(domain, &wanted));
    const bool shown = made == nullptr || !description.hides_queue_pairs || IsQueuePairShown(index, made->qp_num);
    if (shown || count == hidden.size()) return made.release();
    hidden[count] = std::move(made);
  }
}

NdkStatus DescribeDevice(ibv_context* context, DeviceDescription* description) {
  ibv_device_attr_ex device = {};
  if (const auto status = FromErrnoResult(ibv_query_device_ex(context, nullptr, &device));
      status != NdkStatus::kSuccess) {
    return status;
  }
  ibv_port_attr port = {};
  if (const auto status = FromErrnoResult(ibv_query_port(context, kPort, &port)); status != NdkStatus::kSuccess) {
    return status;
  }
  DeviceTrials trials;
  if (const auto status = Try(context, device.orig_attr, &trials); status != NdkStatus::kSuccess) return status;
  *description = Describe(context->device->transport_type, device, port, trials);
  return NdkStatus::kSuccess;
}

NdkStatus QueryDevice(const std::string& name, DeviceDescription* description) {
  DeviceContext context;
  const NdkStatus status = OpenDevice(name, &context);
  return status == NdkStatus::kSuccess ? DescribeDevice(context.get(), description) : status;
}

}  // namespace rdmabroker::verbs
