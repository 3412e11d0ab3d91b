// SPDX-License-Identifier: Apache-2.0

#include "broker/log/log_line.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rdmabroker {
namespace {

// A byte that is no part of a character stands for itself as this.
constexpr char32_t kReplacement = 0xfffd;

// Whether it can stand without quotation marks, and be taken for nothing else.
bool IsWord(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char each) {
    return absl::ascii_isgraph(each) && each != '"' && each != '\\' && each != '=';
  });
}

struct Character {
  char32_t code;
  size_t bytes;
};

// The first character of what is not empty: by RFC 3629, so no surrogates, none beyond U+10FFFF, and none that is
// written with more bytes than it needs.
Character FirstOf(absl::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {kReplacement, 1};
  char32_t code = lead & (0x7f >> bytes);
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return {kReplacement, 1};
    code = code << 6 | (byte(at) & 0x3f);
  }
  const bool longer_than_needed = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (longer_than_needed || surrogate || code > 0x10ffff) return {kReplacement, 1};
  return {code, bytes};
}

void AppendEscaped(std::string& json, char32_t code) {
  if (code == '"' || code == '\\') {
    absl::StrAppend(&json, "\\", std::string(1, static_cast<char>(code)));
  } else if (code >= 0x20 && code < 0x7f) {
    json += static_cast<char>(code);
  } else if (code < 0x10000) {
    absl::StrAppendFormat(&json, "\\u%04x", static_cast<uint32_t>(code));
  } else {
    const uint32_t rest = static_cast<uint32_t>(code) - 0x10000;
    absl::StrAppendFormat(&json, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
  }
}

std::string JsonString(absl::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const Character first = FirstOf(text);
    AppendEscaped(json, first.code);
    text.remove_prefix(first.bytes);
  }
  json += '"';
  return json;
}

// Numbers and truth values look the same in both; what words do, the caller says.
template <typename OfString>
std::string ValueOf(const LogField& field, OfString of_string) {
  return std::visit(
      [&](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return of_string(value);
        } else {
          return absl::StrCat(value);
        }
      },
      field.value);
}

}  // namespace

std::string TextOf(absl::string_view event, LogFields fields) {
  std::string text(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&text, " ", field.name, "=", ValueOf(field, [](const std::string& value) {
      return IsWord(value) ? value : absl::StrCat("\"", absl::CHexEscape(value), "\"");
    }));
  }
  return text;
}

std::string JsonMembersOf(absl::string_view event, LogFields fields) {
  std::string json = absl::StrCat("\"event\":", JsonString(event));
  for (const LogField& field : fields) {
    absl::StrAppend(&json, ",", JsonString(field.name), ":", ValueOf(field, JsonString));
  }
  return json;
}

}  // namespace rdmabroker
