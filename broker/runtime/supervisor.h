// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_SUPERVISOR_H_
#define BROKER_RUNTIME_SUPERVISOR_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/runtime/kept_descriptor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// What has started this process, starts it anew when it dies, and keeps descriptors for it meanwhile: systemd, or
// rdma-broker-keeper where there is no systemd. What it is told goes out at once and in order, and has been done only
// once a barrier has been passed. One thread. Only Pass and Barrier wait for the supervisor: messages for which it has
// no room are queued.
class Supervisor {
 public:
  // FileDescriptorStoreMax of deploy/systemd, and what rdma-broker-keeper keeps unless it is told otherwise.
  static constexpr size_t kMostKept = 4096;

  virtual ~Supervisor() = default;

  // False: nobody supervises this process. Then all that follows succeeds and does nothing.
  virtual bool IsThere() const = 0;
  // Longer than this it does not wait between two calls of PingWatchdog; infinite where it does not wait for any.
  virtual absl::Duration watchdog_interval() const = 0;
  // So many descriptors it keeps, and drops what is more. kMostKept where it does not say, as systemd before 254.
  virtual size_t most_kept() const = 0;

  // The process serves.
  virtual absl::Status Ready() = 0;
  // It has begun to end. The supervisor no longer waits for PingWatchdog, but for its end.
  virtual absl::Status Stopping() = 0;
  // A line for administrators. INVALID_ARGUMENT where it has control characters.
  virtual absl::Status ShowStatus(const std::string& text) = 0;
  virtual absl::Status PingWatchdog() = 0;

  // Keeps a duplicate of `fd`, which stays the caller's, even where the other end of it is gone. A file that is kept
  // already, be it by another name, is not kept twice. INVALID_ARGUMENT where IsDescriptorName is false. Nobody says
  // whether there was room for it: it comes back, or it does not.
  virtual absl::Status Store(const std::string& name, int fd) = 0;
  // No longer keeps those of that name. INVALID_ARGUMENT likewise.
  virtual absl::Status Remove(const std::string& name) = 0;
  // Returns a descriptor that becomes readable when all of the above is done, or none if nobody supervises this
  // process.
  virtual absl::StatusOr<UniqueFd> StartBarrier() = 0;
  // Blocks until that is so. DEADLINE_EXCEEDED after `patience`, which is finite. Any thread.
  static absl::Status Pass(const UniqueFd& barrier, absl::Duration patience);
  // Both in one.
  absl::Status Barrier(absl::Duration patience);
  // Those that were kept while there was no process, once: later it returns none. They are kept on until Remove. In no
  // order, and closed on exec.
  virtual std::vector<KeptDescriptor> TakeKept() = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_SUPERVISOR_H_
