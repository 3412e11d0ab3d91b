// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_LOG_LOG_FIELD_H_
#define BROKER_LOG_LOG_FIELD_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rdmabroker {

// A value of an event with its name, a lower-case literal other than time, level, program and event, which every line
// has. The value may be anything, what a peer or client has said included.
struct LogField {
  template <std::same_as<bool> T>  // Nothing else: a pointer would become one.
  LogField(absl::string_view its_name, T its_value) : name(its_name), value(its_value) {}
  template <std::signed_integral T>
  LogField(absl::string_view its_name, T its_value) : name(its_name), value(int64_t{its_value}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogField(absl::string_view its_name, T its_value)
      : name(its_name), value(uint64_t{its_value}) {}
  template <typename T>  // Any string; Abseil's view and the standard library's are two types.
  requires(!std::integral<T> && std::constructible_from<std::string, const T&>)
      LogField(absl::string_view its_name, const T& its_value)
      : name(its_name), value(std::string(its_value)) {}

  absl::string_view name;
  std::variant<bool, int64_t, uint64_t, std::string> value;
};

using LogFields = absl::Span<const LogField>;

}  // namespace rdmabroker

#endif  // BROKER_LOG_LOG_FIELD_H_
