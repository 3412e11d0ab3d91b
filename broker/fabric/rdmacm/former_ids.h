// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_FORMER_IDS_H_
#define BROKER_FABRIC_RDMACM_FORMER_IDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "broker/core/ids.h"
#include "broker/fabric/rdmacm/cm_file.h"

namespace rdmabroker {

// Which queue pairs the kernel had joined to peers, or was about to, when this process took its ids over. Loop thread
// only.
class FormerIds {
 public:
  // Whether it had this one. Of each device the kernel is asked until it has answered, which takes some milliseconds
  // for thousands of connections. False where it does not tell.
  bool HadJoined(QpNumber qp, const CmAddresses& at);
  // What this process does itself is not to be looked for among them.
  void Forget() { by_device_.clear(); }

 private:
  using Joined = std::tuple<uint32_t, SocketAddress, SocketAddress>;

  std::map<uint32_t, std::set<Joined>> by_device_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_FORMER_IDS_H_
