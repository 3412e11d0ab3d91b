// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_DISTANT_FABRIC_H_
#define TESTS_SURVIVE_DISTANT_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "tests/control/network_thread.h"

namespace rdmabroker {

// The host of an OutlivingNetwork, which is another process's, as a fabric of this broker. Unlike others it waits, for
// that process: when it starts, and at the end of a recovery.
class DistantFabric final : public Fabric {
 public:
  // `path` is the network's. `goes_on`: the core knows the host's device, of a process before this one.
  static absl::StatusOr<std::unique_ptr<DistantFabric>> Open(const std::string& path, bool goes_on, Loop& loop,
                                                             HandoffTable& handoffs);

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;

 private:
  DistantFabric(UniqueFd socket, Loop& loop, HandoffTable& handoffs)
      : socket_(std::move(socket)), loop_(loop), handoffs_(handoffs) {}

  void Ask(const HostRequest& request);
  // The next report; false where it was the last so far, or nothing waits.
  bool Receive(int flags);
  void OnReadable(uint32_t events);

  const UniqueFd socket_;
  Loop& loop_;
  HandoffTable& handoffs_;
  ReportSink sink_;
  WatchId watch_ = WatchId::kNone;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_DISTANT_FABRIC_H_
