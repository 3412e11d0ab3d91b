// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/former_ids.h"

#include <utility>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/verbs/device/connection_ids.h"

namespace rdmabroker {
namespace {

// A list leaves some out where others go meanwhile.
constexpr int kLooks = 2;

}  // namespace

bool FormerIds::HadJoined(QpNumber qp, const CmAddresses& at) {
  const auto asked = by_device_.find(at.device_index);
  if (asked != by_device_.end()) return asked->second.contains({qp.value, at.local, at.peer});
  std::set<Joined> joined;
  for (int i = 0; i < kLooks; ++i) {
    const auto shown = verbs::FindConnectionIds(at.device_index);
    if (!shown) return false;
    for (const verbs::ConnectionId& id : *shown) {
      joined.emplace(id.queue_pair, FromKernelWithoutScope(id.local), FromKernelWithoutScope(id.peer));
    }
  }
  return (by_device_[at.device_index] = std::move(joined)).contains({qp.value, at.local, at.peer});
}

}  // namespace rdmabroker
