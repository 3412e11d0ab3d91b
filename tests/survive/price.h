// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_PRICE_H_
#define TESTS_SURVIVE_PRICE_H_

#include <algorithm>
#include <string>
#include <vector>

#include "dataplane/ndk/status.h"

namespace rdmabroker {

// What the broker's death may end.
enum class HandshakeStep { kConnect, kCompleteConnect, kAccept };

// Whether a death of the broker may end that step of a handshake over the adapter with that status
// (docs/reliability.md, "handshakes under way"). Over RoCE only a Connect that the kernel has not been asked for: it
// has no record in the fabric.
inline bool IsPriceOfADeath(const std::string& adapter, HandshakeStep step, NdkStatus status) {
  struct Price {
    const char* adapter;
    std::vector<HandshakeStep> steps;
    std::vector<NdkStatus> statuses;
  };
  static const auto* const kPrices = [] {
    const std::vector<HandshakeStep> all = {HandshakeStep::kConnect, HandshakeStep::kCompleteConnect,
                                            HandshakeStep::kAccept};
    return new std::vector<Price>{
        {"fake", all, {NdkStatus::kConnectionAborted}},
        {"iwarp", all, {NdkStatus::kConnectionAborted}},
        {"rxe", {HandshakeStep::kConnect}, {NdkStatus::kConnectionAborted}},
        {"siw", all, {NdkStatus::kConnectionAborted, NdkStatus::kIoTimeout}},
    };
  }();
  const auto has = [](const auto& values, auto value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return std::any_of(kPrices->begin(), kPrices->end(), [&](const Price& price) {
    return adapter == price.adapter && has(price.steps, step) && has(price.statuses, status);
  });
}

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_PRICE_H_
