// SPDX-License-Identifier: Apache-2.0

// SPIFFE ids, which are good where the grammar of the standard has them.

#include "broker/control/spiffe_id.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/fuzz.h"

namespace rdmabroker {
namespace {

// SPIFFE-ID sections 2.1 to 2.3, in other words than the code's: cut at each slash, "spiffe:" and an empty text come
// first, then the trust domain, then at least one segment.
bool IsInGrammar(std::string_view id) {
  constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789.-_";
  const std::string letters = std::string(kLower) + "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (id.size() > 2048) return false;
  size_t count = 0;
  for (size_t begin = 0; begin <= id.size(); ++count) {
    const size_t end = std::min(id.find('/', begin), id.size());
    const std::string_view piece = id.substr(begin, end - begin);
    begin = end + 1;
    if (count == 0 && piece != "spiffe:") return false;
    if (count == 1 && !piece.empty()) return false;
    if (count < 2) continue;
    const std::string_view allowed = count == 2 ? kLower : std::string_view(letters);
    if (piece.empty() || piece.find_first_not_of(allowed) != std::string_view::npos) return false;
    if (count == 2 ? piece.size() > 255 : piece == "." || piece == "..") return false;
  }
  return count > 3;
}

}  // namespace
}  // namespace rdmabroker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  const std::string_view id(reinterpret_cast<const char*>(data), size);
  Require(SpiffeIdProblem({id.data(), id.size()}).empty() == IsInGrammar(id), "an id is judged as by the standard");
  return 0;
}
