// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_DEVICE_H_
#define DATAPLANE_VERBS_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/status.h"

struct ibv_context;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_init_attr;

namespace rdmabroker::verbs {

// What a device is, as broker and data plane both say it.
struct DeviceDescription {
  AdapterInfo info;
  bool resizes_srqs = false;
  // Soft-iWARP never does, so that every receive may be one.
  bool tells_of_solicited = true;
  // Soft-iWARP's library takes the queue that a context maps at one certain offset for a failure: SIW_INVAL_UOBJ_KEY of
  // siw-abi.h, which its driver gives away nevertheless.
  bool loses_an_offset = false;
  // Soft-iWARP sends without MSG_NOSIGNAL (drivers/infiniband/sw/siw/siw_qp_tx.c): whoever posts to a connection that
  // TCP has ended already may get SIGPIPE.
  bool raises_sigpipe = false;
  // Soft-iWARP takes what is posted to a queue pair that its driver has moved to the error state by itself, and never
  // says anything of it (siw_post_send, siw_qp_modify in drivers/infiniband/sw/siw). What it does cancel is in the
  // completion queue when ibv_modify_qp(3) to that state has returned, or comes when the socket is closed.
  bool forgets_late_posts = false;
  // Soft-iWARP's connections are sockets of the kernel's. Other iWARP devices have a TCP of their own, even where their
  // handshakes go by a socket of the kernel's (drivers/infiniband/hw/erdma), which hears nothing more after them.
  bool speaks_by_the_kernels_tcp = false;
  // Soft-iWARP, as MakeQueuePair says.
  bool hides_queue_pairs = false;
  // Soft-RoCE tells of an invalidated token by the kernel's flag and not by libibverbs'.
  bool kernel_invalidate_flag = false;
};

// Completion queues are made with room for so many completions beyond their depth: one half for those by which a data
// path learns that silent requests are done, the other for those by which it learns that peers live or that a queue
// pair says no more. A queue of more queue pairs than a half gets more room where its device can give it.
inline constexpr uint32_t kHiddenCompletions = 128;
// Each queue pair has room for this many initiator requests in addition to the consumer's: one asks a silent peer for a
// sign of life, and one is posted behind all others at the end.
inline constexpr uint32_t kHiddenRequests = 2;

struct ContextCloser {
  void operator()(ibv_context* context) const;
};
// An open device. It cannot be removed meanwhile.
using DeviceContext = std::unique_ptr<ibv_context, ContextCloser>;

// The devices that libibverbs can drive. One whose driver's part for programs is not installed is missing here. Has the
// kernel load ib_uverbs where it has not.
std::vector<std::string> DeviceNames();

// kObjectNameNotFound: there is no such device. kAccessDenied, kInsufficientResources.
NdkStatus OpenDevice(const std::string& name, DeviceContext* context);

// As ibv_create_qp(3), but one that RDMA netlink shows, by which a broker sees that it is its maker's. Soft-iWARP gives
// a number away before the kernel has forgotten the queue pair that had it, and whichever gets it at that moment is
// never shown (rdma_restrack_add in drivers/infiniband/core/restrack.c).
ibv_qp* MakeQueuePair(const DeviceDescription& description, ibv_pd* domain, const ibv_qp_init_attr& attributes);

// Asks the device, and tries out what it does not tell; that takes some throw-away objects, and so a moment.
// kInsufficientResources: not even the smallest queue pair can be made. The numbers are those of its first port.
NdkStatus DescribeDevice(ibv_context* context, DeviceDescription* description);

// Both, and closes it again.
NdkStatus QueryDevice(const std::string& name, DeviceDescription* description);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_DEVICE_H_
