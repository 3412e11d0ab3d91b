// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_KEPT_FILES_H_
#define BROKER_FABRIC_RDMACM_KEPT_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/kept_descriptor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The rdma_cm files for one purpose that outlive the process, by the names "c1", "c2" ..., where "c" is the purpose's:
// this process's own, and those of the processes before, of which there are several where one has died while it took
// over. What is kept under such a name and is no rdma_cm file does no harm: the kernel finds no id in it. Loop thread
// only.
class KeptFiles {
 public:
  KeptFiles(DescriptorKeep& keep, std::string prefix);
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;

  // The process's own is kept from now on.
  void Keep(int file);
  // Waits until it is, before ids are moved there: a second death must not cost them. DEADLINE_EXCEEDED, or why it
  // cannot be kept, where it may not be; the old ones are then kept on, as long as nothing is moved, and another
  // process may take them over. Where the supervisor has gone no process follows, so that there is nothing to wait for:
  // OK.
  [[nodiscard]] absl::Status KeepSurely(int file);
  // Its own is of no use any more.
  void ForgetOwn();
  // At once, as nothing was moved there, and the process ends: others that fail likewise must not fill the room.
  void GiveUpOwn();

  // Whether those before have left any that have not been given up.
  bool HasOld() const { return !old_.empty(); }
  // Moves the id to `file` from the one that has it. 0; ENOENT where there is no such id, EINVAL where none has it.
  int Migrate(KernelId id, const CmFile& file) const;
  // Forgets the old ones. Their last ids end when these descriptors are closed, which may block, and the supervisor's.
  std::vector<UniqueFd> GiveUpOld();
  // Work for a thread that may block: waits for the supervisor to close the files that were forgotten before the last
  // commit. Returns 0, or an errno if it may not have closed them.
  std::function<int()> Await() { return keep_.Await(); }

 private:
  DescriptorKeep& keep_;
  const std::string prefix_;
  std::vector<KeptDescriptor> old_;
  uint64_t last_ = 0;  // The number in the last name.
  std::string own_;    // Empty: it is not kept.
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_KEPT_FILES_H_
