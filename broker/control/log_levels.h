// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_LOG_LEVELS_H_
#define BROKER_CONTROL_LOG_LEVELS_H_

#include "absl/strings/string_view.h"
#include "broker/log/log.h"

namespace rdmabroker {

// All of them, for complaints.
inline constexpr char kLogLevelNames[] = "trace, debug, info, warning, error";

// By which LogLevelNamed knows it.
absl::string_view NameOf(LogLevel level);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_LOG_LEVELS_H_
