// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/output.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

namespace rdmabroker::ctl {
namespace {

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether a text without quotes would be something else: a number, a date, a truth, or YAML's own signs. Readers of
// YAML 1.1 count "yes", "no", "on", "off", "y" and "n" among the truths.
bool NeedsQuotes(const std::string& text) {
  static constexpr std::array<std::string_view, 9> kWords = {"true", "false", "null", "yes", "no",
                                                             "on",   "off",   "y",    "n"};
  const bool plain = !text.empty() && (IsLetter(text.front()) || text.front() == '/') &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
                     });
  if (!plain) return true;
  std::string word = text;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

void Emit(const YAML::Node& node, YAML::Emitter& out) {
  switch (node.Type()) {
    case YAML::NodeType::Map:
      out << YAML::BeginMap;
      for (const auto& entry : node) {
        out << YAML::Key;
        Emit(entry.first, out);
        out << YAML::Value;
        Emit(entry.second, out);
      }
      out << YAML::EndMap;
      return;
    case YAML::NodeType::Sequence:
      out << YAML::BeginSeq;
      for (const auto& each : node) Emit(each, out);
      out << YAML::EndSeq;
      return;
    case YAML::NodeType::Scalar:
      // The library's sign that it stood between quotes.
      if (node.Tag() == "!" && NeedsQuotes(node.Scalar())) out << YAML::DoubleQuoted;
      out << node.Scalar();
      return;
    default:
      out << YAML::Null;
  }
}

}  // namespace

std::optional<std::string> JsonOf(const google::protobuf::Message& message, bool in_one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !in_one_line;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) return std::nullopt;
  return in_one_line ? json + "\n" : json;
}

std::string JsonText(const std::string& text) {
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c < ' ') {
      char escape[sizeof "\\u0000"];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c < 0x7F ? static_cast<char>(c) : '?';
    }
  }
  return quoted + "\"";
}

// JSON is YAML, which the library reads.
std::optional<std::string> YamlOf(const std::string& json) {
  try {
    YAML::Emitter out;
    Emit(YAML::Load(json), out);
    return std::string(out.c_str(), out.size()) + "\n";
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> InForm(OutputForm form, const std::optional<std::string>& json) {
  return json.has_value() && form == OutputForm::kYaml ? YamlOf(*json) : json;
}

}  // namespace rdmabroker::ctl
