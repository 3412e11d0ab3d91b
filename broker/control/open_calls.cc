// SPDX-License-Identifier: Apache-2.0

#include "broker/control/open_calls.h"

#include "absl/strings/str_cat.h"

namespace rdmabroker {

std::optional<Outcome> OpenCalls::RefuseTo(const Caller& caller) const {
  const std::string who = WhoIs(caller);
  const size_t own = of_caller_.of(who);
  if (own >= bounds_.of_caller) {
    return Outcome{.status = NdkStatus::kInsufficientResources,
                   .hint = absl::StrCat(kind_, ": ", who, " has ", own, " already; end one")};
  }
  if (in_all_ >= (caller.administrator ? bounds_.in_all : bounds_.of_users)) {
    return Outcome{.status = NdkStatus::kInsufficientResources,
                   .hint = absl::StrCat(kind_, ": there are too many already; have somebody end one")};
  }
  return std::nullopt;
}

void OpenCalls::Enter(const std::string& who) {
  ++in_all_;
  of_caller_.Enter(who);
}

void OpenCalls::Leave(const std::string& who) {
  --in_all_;
  of_caller_.Leave(who);
}

}  // namespace rdmabroker
