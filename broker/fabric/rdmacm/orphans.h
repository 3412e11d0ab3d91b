// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_ORPHANS_H_
#define BROKER_FABRIC_RDMACM_ORPHANS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "broker/core/ids.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/kept_files.h"
#include "broker/runtime/blocking_pool.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// An established connection of which there is no record.
struct Orphan {
  uint32_t device_index = 0;
  SocketAddress local;
  SocketAddress peer;
  QpNumber qp;       // 0: the kernel has not shown it yet.
  int looks = 0;     // In which it was not shown.
  pid_t thread = 0;  // That made the queue pair; 0: not shown.
};

// Established connections of which there is no record, as a damaged store leaves them. The one to whom such a
// connection belongs is the one who has its queue pair. It stays until the peer or the kernel ends it, or until its
// queue pair has failed or is gone, of which its peer learns then. Its owner, whom nobody knows, finds the peer's end
// out by itself.
//
// Their ids are in a file of their own, which is kept by names that begin with an "o" while there are any: so the next
// process knows what they are. Loop thread only.
class Orphans {
 public:
  // Whether the process before has left any that nobody has taken over.
  static bool AreKept(const DescriptorKeep& keep);

  // All outlive it.
  Orphans(DescriptorKeep& keep, BlockingPool& pool, Loop& loop);
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // Takes the orphans of the process before, and makes some of what is connected in `unrecorded`, which may be null; of
  // all else there the ids end. Once; blocks for a system call for each number that an id may have. After an error
  // nothing is lost, and another process may do it.
  absl::Status TakeOver(const KeptFiles* unrecorded);
  // Ends the ids that have no peer, and hold addresses. `done` runs when they are gone, perhaps at once. Once, after
  // TakeOver.
  void EndAnchors(std::function<void()> done);

 private:
  // All the ids that the files before have.
  std::vector<KernelId> MoveAll(const KeptFiles* unrecorded) const;
  void Begin();
  void OnReadable();
  // Asks after a while which of their queue pairs are left.
  void LookLater();
  void Look();
  void End(KernelId id);
  void Close();

  KeptFiles files_;
  BlockingPool& pool_;
  Loop& loop_;
  std::shared_ptr<const CmFile> file_;  // Null: there are none.
  WatchId watch_ = WatchId::kNone;
  TimerId look_ = TimerId::kNone;
  std::map<KernelId, Orphan> orphans_;
  std::vector<KernelId> anchors_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_ORPHANS_H_
