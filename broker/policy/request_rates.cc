// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/request_rates.h"

#include <algorithm>

namespace rdmabroker {
namespace {

// What a bucket holds, in time.
constexpr absl::Duration kBurst = absl::Seconds(1);
// As many users are on a busy node; more cost a walk over all of them once they have doubled.
constexpr size_t kUsualUsers = 1024;

}  // namespace

std::optional<absl::Duration> RequestRates::Take(const Rule& rule, uint32_t uid, absl::Time now) {
  const uint32_t rate = *rule.quotas.requests_per_second;
  if (buckets_.size() >= std::max(most_, kUsualUsers)) DropFullOnes(now);
  Bucket& bucket = buckets_[{rule.name, uid}];
  if (bucket.rate != rate) bucket = {rate, absl::InfinitePast()};
  const absl::Time full = std::max(bucket.full, now) + absl::Seconds(1) / rate;
  if (full - now > kBurst) return full - now - kBurst;
  bucket.full = full;
  return std::nullopt;
}

void RequestRates::Keep(const Policy& policy) {
  std::erase_if(buckets_, [&](const auto& entry) {
    return std::none_of(policy.rules.begin(), policy.rules.end(), [&](const Rule& rule) {
      return rule.name == entry.first.first && rule.quotas.requests_per_second == entry.second.rate;
    });
  });
}

void RequestRates::DropFullOnes(absl::Time now) {
  std::erase_if(buckets_, [&](const auto& entry) { return entry.second.full <= now; });
  most_ = buckets_.size() * 2;
}

}  // namespace rdmabroker
