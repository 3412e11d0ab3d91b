// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/supervisor.h"

#include <poll.h>

namespace rdmabroker {

absl::Status Supervisor::Pass(const UniqueFd& barrier, absl::Duration patience) {
  if (!barrier) return absl::OkStatus();
  pollfd wait = {barrier.get(), POLLIN, 0};
  const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(patience, absl::Milliseconds(1))));
  if (::poll(&wait, 1, milliseconds) > 0) return absl::OkStatus();
  return absl::DeadlineExceededError("NOTIFY_SOCKET: the supervisor has not done in time what it was told");
}

absl::Status Supervisor::Barrier(absl::Duration patience) {
  const absl::StatusOr<UniqueFd> barrier = StartBarrier();
  return barrier.ok() ? Pass(*barrier, patience) : barrier.status();
}

}  // namespace rdmabroker
