// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/functions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rdmabroker::misuse {

size_t IndexOf(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                         [name](const Function& function) { return function.name == name; });
  if (found == std::end(kFunctions)) {
    std::fprintf(stderr, "functions.h does not list %s\n", std::string(name).c_str());
    std::abort();
  }
  return static_cast<size_t>(found - std::begin(kFunctions));
}

void Tally::Reached(size_t function) {
  const std::lock_guard lock(mutex_);
  ++counts_[function].calls;
}

void Tally::Returned(size_t function, NdkStatus status) {
  const std::lock_guard lock(mutex_);
  ++counts_[function].calls;
  if (status == NdkStatus::kSuccess || status == NdkStatus::kPending) ++counts_[function].accepted;
}

double Tally::AcceptedShare() const {
  const std::lock_guard lock(mutex_);
  uint64_t calls = 0, accepted = 0;
  for (size_t i = 0; i < kFunctionCount; ++i) {
    if (!kFunctions[i].has_status) continue;
    calls += counts_[i].calls;
    accepted += counts_[i].accepted;
  }
  return calls == 0 ? 0 : static_cast<double>(accepted) / static_cast<double>(calls);
}

std::string Tally::ToString() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (size_t i = 0; i < kFunctionCount; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", kFunctions[i].name, " ");
    if (kFunctions[i].has_status) absl::StrAppend(&text, counts_[i].accepted, " of ");
    absl::StrAppend(&text, counts_[i].calls);
  }
  return text;
}

namespace {

bool Names(const char* list, const std::string& adapter) {
  const std::vector<std::string> named = absl::StrSplit(list, ' ');
  return std::find(named.begin(), named.end(), adapter) != named.end();
}

}  // namespace

std::vector<std::string> Tally::Missing(const std::string& adapter) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (size_t i = 0; i < kFunctionCount; ++i) {
    const Function& function = kFunctions[i];
    const bool calls = !Names(function.never_called_on, adapter), accepts = !Names(function.never_accepted_on, adapter);
    if (calls && counts_[i].calls == 0) missing.push_back(absl::StrCat(function.name, " was never called"));
    if (!calls && counts_[i].calls > 0) {
      missing.push_back(absl::StrCat(function.name, " was called, which functions.h says it never is"));
    }
    if (!function.has_status || counts_[i].calls == 0) continue;
    if (accepts && counts_[i].accepted == 0) missing.push_back(absl::StrCat(function.name, " was never accepted"));
    if (!accepts && counts_[i].accepted > 0) {
      missing.push_back(absl::StrCat(function.name, " was accepted, which functions.h says it never is"));
    }
  }
  return missing;
}

}  // namespace rdmabroker::misuse
