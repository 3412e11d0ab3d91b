// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_VERBS_ADAPTER_H_
#define DATAPLANE_VERBS_VERBS_ADAPTER_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "dataplane/adapter.h"
#include "dataplane/verbs/adapter_thread.h"
#include "dataplane/verbs/device/device.h"
#include "dataplane/verbs/maker_thread.h"

namespace rdmabroker::verbs {

struct QueueDestroyer {
  void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
};
using UnusedQueue = std::unique_ptr<ibv_cq, QueueDestroyer>;

class VerbsAdapter final : public Adapter {
 public:
  // `unused` lies where no queue of a consumer's may; see DeviceDescription::loses_an_offset.
  VerbsAdapter(DeviceContext context, const DeviceDescription& description, UnusedQueue unused,
               std::unique_ptr<MakerThread> maker, std::unique_ptr<AdapterThread> thread)
      : context_(std::move(context)),
        description_(description),
        unused_(std::move(unused)),
        maker_(std::move(maker)),
        thread_(std::move(thread)) {}

  const AdapterInfo& info() const override { return description_.info; }
  Created<ProtectionDomain> CreateProtectionDomain() override;
  Created<CompletionQueue> CreateCompletionQueue(uint32_t depth, CqNotification notification) override;

  // As the function of adapter.h.
  void ReleaseDevice();
  // For whatever has an object of the device: the device is open from here to DropDeviceUse. kDeviceRemoved after
  // ReleaseDevice.
  NdkStatus AddDeviceUse();
  void DropDeviceUse();

  // The following are there while the device is open.
  ibv_context* context() const { return context_.get(); }
  uint32_t device_index() const { return static_cast<uint32_t>(ibv_get_device_index(context_->device)); }
  const DeviceDescription& description() const { return description_; }
  bool iwarp() const { return info().technology == RdmaTechnology::kIwarp; }
  MakerThread& maker() { return *maker_; }
  AdapterThread& thread() { return *thread_; }

 private:
  void Dismantle() override { CloseDevice(); }
  void CloseDevice() {
    thread_.reset();
    maker_.reset();
    unused_.reset();
    context_.reset();
  }

  DeviceContext context_;
  const DeviceDescription description_;
  UnusedQueue unused_;
  std::unique_ptr<MakerThread> maker_;
  std::unique_ptr<AdapterThread> thread_;

  std::mutex mutex_;  // Guards what follows.
  uint32_t device_uses_ = 0;
  bool device_released_ = false;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_VERBS_ADAPTER_H_
