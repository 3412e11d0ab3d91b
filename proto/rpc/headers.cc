// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/headers.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker::rpc {
namespace {

constexpr size_t kMostDigits = 8;
constexpr int64_t kMostUnits = 99'999'999;

struct Unit {
  char letter;
  absl::Duration length;
};
// From the finest.
const std::array<Unit, 6>& Units() {
  static const std::array<Unit, 6> kUnits = {{{'n', absl::Nanoseconds(1)},
                                              {'u', absl::Microseconds(1)},
                                              {'m', absl::Milliseconds(1)},
                                              {'S', absl::Seconds(1)},
                                              {'M', absl::Minutes(1)},
                                              {'H', absl::Hours(1)}}};
  return kUnits;
}

const uint8_t* Octets(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

bool IsPseudo(std::string_view name) { return absl::StartsWith({name.data(), name.size()}, ":"); }

bool IsKnownPseudo(std::string_view name) {
  return name == ":method" || name == ":path" || name == ":scheme" || name == ":authority" || name == ":status";
}

bool IsAboutConnection(std::string_view name) {
  return name == "connection" || name == "keep-alive" || name == "proxy-connection" || name == "transfer-encoding" ||
         name == "upgrade";
}

}  // namespace

std::optional<std::string_view> Find(const Headers& headers, std::string_view name) {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [name](const auto& field) { return field.name == name; });
  if (found == headers.end()) return std::nullopt;
  return found->value;
}

bool AreWellFormed(const Headers& headers) {
  bool regular = false;
  for (auto field = headers.begin(); field != headers.end(); ++field) {
    const std::string_view name = field->name;
    if (nghttp2_check_header_name(Octets(name), name.size()) == 0 || IsAboutConnection(name)) return false;
    if (nghttp2_check_header_value_rfc9113(Octets(field->value), field->value.size()) == 0) return false;
    if (!IsPseudo(name)) {
      regular = true;
      continue;
    }
    if (regular || !IsKnownPseudo(name)) return false;
    if (std::any_of(headers.begin(), field, [name](const auto& other) { return other.name == name; })) return false;
  }
  return true;
}

bool IsGrpc(std::string_view content_type) {
  constexpr std::string_view kGrpc = "application/grpc";
  if (content_type.substr(0, kGrpc.size()) != kGrpc) return false;
  const std::string_view rest = content_type.substr(kGrpc.size());
  return rest.empty() || rest.front() == '+' || rest.front() == ';';
}

std::optional<absl::Duration> ReadTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > kMostDigits + 1) return std::nullopt;
  const absl::string_view digits(text.data(), text.size() - 1);
  int64_t number = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(digits, &number)) {
    return std::nullopt;
  }
  for (const Unit& unit : Units()) {
    if (unit.letter == text.back()) return number * unit.length;
  }
  return std::nullopt;
}

std::string WriteTimeout(absl::Duration timeout) {
  for (const Unit& unit : Units()) {
    const int64_t number = absl::Ceil(timeout, unit.length) / unit.length;
    if (number <= kMostUnits) return absl::StrCat(number, std::string(1, unit.letter));
  }
  return absl::StrCat(kMostUnits, "H");
}

}  // namespace rdmabroker::rpc
