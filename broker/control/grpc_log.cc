// SPDX-License-Identifier: Apache-2.0

#include "broker/control/grpc_log.h"

#include <grpc/support/log.h>

#include <mutex>
#include <optional>

#include "broker/log/log.h"
#include "broker/runtime/warning_limit.h"
#include "broker/runtime/watcher.h"

namespace rdmabroker {
namespace {

// gRPC's threads are many.
std::mutex mutex;
WarningLimit complaints;  // Guarded by mutex.

void Take(gpr_log_func_args* said) {
  std::optional<uint64_t> left_out;
  {
    const std::lock_guard lock(mutex);
    left_out = complaints.Pass(Watcher::Now());
  }
  if (left_out) LogWarning("grpc complains", {{"cause", said->message}, {"left_out", *left_out}});
}

}  // namespace

void TakeGrpcsComplaints() { ::gpr_set_log_function(Take); }

}  // namespace rdmabroker
