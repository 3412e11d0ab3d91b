// SPDX-License-Identifier: Apache-2.0

#include "broker/core/state.h"

namespace rdmabroker {

// Defined here for the reason that requests.cc gives.
Records::Records() = default;
Records::Records(const Records&) = default;
Records::Records(Records&&) noexcept = default;
Records& Records::operator=(const Records&) = default;
Records& Records::operator=(Records&&) noexcept = default;
Records::~Records() = default;

}  // namespace rdmabroker
