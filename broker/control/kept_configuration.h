// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_KEPT_CONFIGURATION_H_
#define BROKER_CONTROL_KEPT_CONFIGURATION_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "broker/runtime/descriptor_keep.h"

namespace rdmabroker {

// The text of the configuration that was applied last, kept by the supervisor: with it the next process goes on where
// the file has become bad meanwhile, so that a slip of an editor costs nobody a connection. In memory, sealed against
// any change, and in no file system. One thread.
class KeptConfiguration {
 public:
  // Takes what the process before has kept. `keep` outlives it.
  explicit KeptConfiguration(DescriptorKeep& keep);
  KeptConfiguration(const KeptConfiguration&) = delete;
  KeptConfiguration& operator=(const KeptConfiguration&) = delete;

  // What the process before went by. Nothing where there was none, where nobody keeps anything, and where what is kept
  // is not what this class has made.
  const std::optional<std::string>& former() const { return former_; }

  // From now on this is kept, and nothing else. What goes wrong is logged: the process goes on. Nothing happens where
  // it is kept already, or where nobody keeps anything.
  void Keep(const std::string& text);

 private:
  DescriptorKeep& keep_;
  std::optional<std::string> former_;
  std::optional<std::string> kept_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_KEPT_CONFIGURATION_H_
