// SPDX-License-Identifier: Apache-2.0

// How the keys of a configuration file set fields, and what is said of a value that cannot be meant.

#ifndef BROKER_CONTROL_TOML_SETTERS_H_
#define BROKER_CONTROL_TOML_SETTERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#define TOML_EXCEPTIONS 0
// Files such as "[!]" fail an assertion of the parser's, where the code behind it reports an error.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {

// What is wrong, and where; nothing is where `what` is empty.
struct Complaint {
  toml::source_region where;
  std::string what;
};

// INVALID_ARGUMENT, which names file and line; OK where nothing is wrong.
absl::Status StatusOf(const std::string& file, const Complaint& complaint);

// Sets one field from a value, or leaves it as it is and complains.
using Setter = std::function<Complaint(const toml::node&)>;
using Setters = std::map<std::string, Setter>;

Setter SetYesOrNo(bool& field);
// `check` says what is wrong with a text, or nothing; without one any is right.
Setter SetText(std::string& field, std::function<std::string(const std::string&)> check = nullptr);

template <typename Number>
Setter SetWhole(Number& field, int64_t least, int64_t most) {
  return [&field, least, most](const toml::node& node) -> Complaint {
    const auto value = node.value_exact<int64_t>();
    if (!value) return {node.source(), absl::StrCat("must be a whole number from ", least, " to ", most)};
    if (*value < least || *value > most) {
      return {node.source(), absl::StrCat(*value, " is not from ", least, " to ", most)};
    }
    field = static_cast<Number>(*value);
    return {};
  };
}

// Each key of the table by its setter, up to the first complaint, which names the key after `prefix`. A key without a
// setter is one, too.
Complaint SetAll(const Setters& setters, const std::string& prefix, const toml::table& table);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TOML_SETTERS_H_
