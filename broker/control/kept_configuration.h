// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_KEPT_CONFIGURATION_H_
#define BROKER_CONTROL_KEPT_CONFIGURATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/control/accounts.h"
#include "broker/runtime/descriptor_keep.h"

namespace rdmabroker {

// The configuration that was applied last, kept by the supervisor: with it the next process goes on where the file has
// become bad meanwhile, so that neither a slip of an editor nor a user who was removed costs anybody a connection. In
// memory, sealed against any change, and in no file system. One thread.
class KeptConfiguration {
 public:
  // A configuration's text, and what the names of users and groups in it stood for when it was applied.
  struct Former {
    std::string text;
    AccountNumbers numbers;

    bool operator==(const Former&) const = default;
  };

  // Takes what the process before has kept, and forgets nothing of it. `keep` outlives it.
  explicit KeptConfiguration(DescriptorKeep& keep);
  KeptConfiguration(const KeptConfiguration&) = delete;
  KeptConfiguration& operator=(const KeptConfiguration&) = delete;

  // What the process before went by. Nothing where there was none, where nobody keeps anything, and where what is kept
  // is not what this class has made.
  const std::optional<Former>& former() const { return former_; }

  // From now on this is kept, and, once the supervisor has been given it, nothing else. What goes wrong is logged, and
  // leaves the former one where it is: the process goes on. Nothing happens where nobody keeps anything.
  void Keep(const std::string& text, const AccountNumbers& numbers = {});

 private:
  // False, which is logged: as before.
  bool KeepInstead(Former wanted);

  DescriptorKeep& keep_;
  std::optional<Former> former_;
  std::optional<Former> kept_;
  std::string kept_name_;           // kept_'s.
  std::vector<std::string> stale_;  // The names of all else that is kept.
  uint64_t last_number_ = 0;        // Of those in names.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_KEPT_CONFIGURATION_H_
