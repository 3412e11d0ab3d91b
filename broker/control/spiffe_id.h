// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SPIFFE_ID_H_
#define BROKER_CONTROL_SPIFFE_ID_H_

#include "absl/strings/string_view.h"

namespace rdmabroker {

// What is wrong with `text` as a SPIFFE id with a path, by SPIFFE-ID sections 2.1 and 2.2; nothing for a good one. Two
// ids are the same where their bytes are: what is not written as the standard has it is refused and not normalised.
absl::string_view SpiffeIdProblem(absl::string_view text);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SPIFFE_ID_H_
