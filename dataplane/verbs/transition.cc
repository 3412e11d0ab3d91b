// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/transition.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace rdmabroker::verbs {

static_assert(std::is_trivially_copyable_v<QpAttributes>);

Attachment AttachmentFor(const QpAttributes& transition) {
  return {.socket = {}, .state = std::string(reinterpret_cast<const char*>(&transition), sizeof transition)};
}

std::optional<QpAttributes> TransitionOf(std::string_view state) {
  QpAttributes transition;
  if (state.size() != sizeof transition) return std::nullopt;
  std::memcpy(&transition, state.data(), sizeof transition);
  return transition;
}

}  // namespace rdmabroker::verbs
