// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_LOG_LOG_LINE_H_
#define BROKER_LOG_LOG_LINE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "broker/log/log_field.h"

namespace rdmabroker {

// Both are one line of printable ASCII, whatever the values are: who chooses a value can neither end the line nor begin
// another, nor a field, nor send a terminal commands.

// event name=value name="value that is not one word"
std::string TextOf(absl::string_view event, LogFields fields);

// "event":"...","name":value: a JSON object's members, without its braces. Bytes that are no UTF-8 become U+FFFD.
std::string JsonMembersOf(absl::string_view event, LogFields fields);

}  // namespace rdmabroker

#endif  // BROKER_LOG_LOG_LINE_H_
