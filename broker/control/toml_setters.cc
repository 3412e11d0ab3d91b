// SPDX-License-Identifier: Apache-2.0

#include "broker/control/toml_setters.h"

#include <utility>

namespace rdmabroker {

absl::Status StatusOf(const std::string& file, const Complaint& complaint) {
  if (complaint.what.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ":", complaint.where.begin.line, ": ", complaint.what));
}

Setter SetYesOrNo(bool& field) {
  return [&field](const toml::node& node) -> Complaint {
    const auto value = node.value_exact<bool>();
    if (!value) return {node.source(), "must be a boolean, true or false"};
    field = *value;
    return {};
  };
}

Setter SetText(std::string& field, std::function<std::string(const std::string&)> check) {
  return [&field, check = std::move(check)](const toml::node& node) -> Complaint {
    const auto value = node.value_exact<std::string>();
    if (!value) return {node.source(), "must be a string"};
    std::string what = check ? check(*value) : "";
    if (what.empty()) field = *value;
    return {node.source(), std::move(what)};
  };
}

Complaint SetAll(const Setters& setters, const std::string& prefix, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto setter = setters.find(name);
    if (setter == setters.end()) {
      std::string known;
      for (const auto& [each, _] : setters) absl::StrAppend(&known, known.empty() ? "" : ", ", each);
      return {node.source(), absl::StrCat(prefix, name, ": unknown key; known are ", known)};
    }
    const Complaint complaint = setter->second(node);
    if (!complaint.what.empty()) return {complaint.where, absl::StrCat(prefix, name, ": ", complaint.what)};
  }
  return {};
}

}  // namespace rdmabroker
