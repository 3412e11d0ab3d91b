// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_DESCRIPTOR_KEEP_H_
#define BROKER_RUNTIME_DESCRIPTOR_KEEP_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "broker/runtime/kept_descriptor.h"
#include "broker/runtime/supervisor.h"
#include "broker/runtime/warning_limit.h"

namespace rdmabroker {

// The descriptors that outlive this process, by name. Each name is in use once, and one that waits to be forgotten is
// not used again. They are short, since all of them together are one string of the next process's environment. One
// thread.
//
// The supervisor keeps no more than it was told to, and says nothing of the rest. So what there may be many of leaves
// room: first what a successor can make anew.
class DescriptorKeep {
 public:
  // `supervisor` outlives it.
  explicit DescriptorKeep(Supervisor& supervisor);
  DescriptorKeep(const DescriptorKeep&) = delete;
  DescriptorKeep& operator=(const DescriptorKeep&) = delete;

  // False: there is nobody who keeps anything.
  bool IsThere() const { return supervisor_.IsThere(); }

  // A duplicate of `fd` is kept, on its way before this returns. What goes wrong is logged: the process goes on.
  void Keep(const std::string& name, int fd);
  // The same where `share` of the room is not full yet, so that the rest is there for what matters more. False: it is
  // not kept, which is logged where there is somebody to keep it.
  bool KeepIfThereIsRoom(const std::string& name, int fd, double share);
  // From the next Committed on it is kept no longer: as long as the records may need it, it is there.
  void Forget(const std::string& name);
  // At once: for what is of no use to anybody.
  void ForgetNow(const std::string& name);
  // The records are stored as they are.
  void Committed();
  // Keeps it, unless it is kept already, and waits until it is: before what another kept descriptor holds is moved to
  // this one. After an error, which is logged as well, it may not be kept; nothing shows where a process dies then.
  // UNAVAILABLE where the supervisor has gone, RESOURCE_EXHAUSTED where it has no room.
  [[nodiscard]] absl::Status KeepSurely(const std::string& name, int fd);
  // Work for a thread that may block: waits for the supervisor to close all that was to be forgotten. Returns 0, or an
  // errno if the supervisor has not said in time that it did, or is gone.
  std::function<int()> Await();

  // What is kept now, and what the supervisor keeps at most.
  size_t kept() const { return kept_.size(); }
  size_t most_kept() const { return supervisor_.most_kept(); }
  // Whether Take would give any of which the name does not end so.
  bool HasInheritedBesides(std::string_view ending) const;
  // Whether Take would give any.
  bool HasInherited(std::string_view prefix) const;
  // What the process before this one has kept under names that begin so, in the order of the names; each once. It is
  // kept on until it is forgotten.
  std::vector<KeptDescriptor> Take(std::string_view prefix);
  // All that nobody has taken is closed, and forgotten at once: the records do not need it.
  void ForgetTheRest();

 private:
  absl::Status Store(const std::string& name, int fd);
  absl::Status AwaitSupervisor();
  void LogUnlessDone(const absl::Status& done);
  void LogUnless(const absl::Status& done, const std::string& name);

  Supervisor& supervisor_;
  std::multimap<std::string, UniqueFd, std::less<>> inherited_;
  std::set<std::string> kept_;          // The names of all that is.
  std::vector<std::string> forgotten_;  // Until the next commit.
  WarningLimit failures_;
  WarningLimit silences_;
  WarningLimit left_out_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_DESCRIPTOR_KEEP_H_
