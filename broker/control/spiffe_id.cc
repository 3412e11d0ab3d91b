// SPDX-License-Identifier: Apache-2.0

#include "broker/control/spiffe_id.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rdmabroker {
namespace {

// SPIFFE-ID sections 2.3 and 2.1.
constexpr size_t kMaxId = 2048;
constexpr size_t kMaxTrustDomain = 255;

bool IsOfTrustDomain(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' || c == '-' || c == '_';
}
bool IsOfPath(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

bool IsSegment(absl::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::all_of(text.begin(), text.end(), IsOfPath);
}

}  // namespace

absl::string_view SpiffeIdProblem(absl::string_view text) {
  if (text.size() > kMaxId) return "is longer than 2048 bytes";
  if (!absl::ConsumePrefix(&text, "spiffe://")) return "does not begin with spiffe://";
  const size_t slash = std::min(text.find('/'), text.size());
  const absl::string_view trust_domain = text.substr(0, slash);
  if (trust_domain.empty() || trust_domain.size() > kMaxTrustDomain ||
      !std::all_of(trust_domain.begin(), trust_domain.end(), IsOfTrustDomain)) {
    return "has no trust domain of 1 to 255 lower-case letters, digits, dots, dashes and underscores";
  }
  if (slash == text.size()) return "names a trust domain and nobody in it";
  for (const absl::string_view segment : absl::StrSplit(text.substr(slash + 1), '/')) {
    if (!IsSegment(segment)) {
      return "has a path segment that is empty, . or .., or has something else than letters, digits, dots, dashes and "
             "underscores";
    }
  }
  return "";
}

}  // namespace rdmabroker
