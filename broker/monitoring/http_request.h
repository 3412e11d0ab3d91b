// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_HTTP_REQUEST_H_
#define BROKER_MONITORING_HTTP_REQUEST_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rdmabroker {

// A scraper's request has a few hundred bytes.
inline constexpr size_t kMostRequestBytes = 8192;

// Answers HTTP requests that want one page: "/metrics" by GET. A request's body is not read.
//
// Nothing where `received` is not a whole request yet. `page` is asked for only where the answer has it. The connection
// ends with the answer, whatever it is.
std::optional<std::string> AnswerTo(absl::string_view received, const std::function<std::string()>& page);

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_HTTP_REQUEST_H_
