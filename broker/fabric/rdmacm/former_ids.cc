// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/former_ids.h"

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/verbs/device/connection_ids.h"

namespace rdmabroker {
namespace {

// A list leaves some out where others go meanwhile.
constexpr int kLooks = 2;

}  // namespace

bool FormerIds::HadJoined(QpNumber qp, const CmAddresses& at) {
  const auto [device, is_new] = by_device_.try_emplace(at.device_index);
  for (int i = 0; is_new && i < kLooks; ++i) {
    for (const verbs::ConnectionId& id : verbs::FindConnectionIds(at.device_index)) {
      device->second.emplace(id.queue_pair, FromKernelWithoutScope(id.local), FromKernelWithoutScope(id.peer));
    }
  }
  return device->second.contains({qp.value, at.local, at.peer});
}

}  // namespace rdmabroker
