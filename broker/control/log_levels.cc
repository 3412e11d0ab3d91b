// SPDX-License-Identifier: Apache-2.0

#include "broker/control/log_levels.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_split.h"

namespace rdmabroker {

absl::string_view NameOf(LogLevel level) {
  // In the order of the levels.
  const std::vector<absl::string_view> names = absl::StrSplit(kLogLevelNames, ", ");
  return names.at(static_cast<size_t>(level));
}

}  // namespace rdmabroker
