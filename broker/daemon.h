// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_DAEMON_H_
#define BROKER_DAEMON_H_

#include <string>

#include "absl/status/statusor.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/kept_configuration.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/supervisor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// What the daemon's parts are made of.
struct DaemonParts {
  const LoadedConfiguration& loaded;
  const std::string& path;  // Of the configuration's file, which may change; "": there is none.
  Supervisor& supervisor;
  DescriptorKeep& keep;
  KeptConfiguration& kept;
  const UniqueFd& signals;  // As TakeSignals has made it.
};

// Blocks the signals that tell the daemon something or must not end it, before any thread is there to get them.
UniqueFd TakeSignals();

// Serves until it is told to end: the exit status.
absl::StatusOr<int> RunDaemon(const DaemonParts& parts);

}  // namespace rdmabroker

#endif  // BROKER_DAEMON_H_
