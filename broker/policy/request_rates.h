// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_POLICY_REQUEST_RATES_H_
#define BROKER_POLICY_REQUEST_RATES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "broker/policy/policy.h"

namespace rdmabroker {

// How many requests each user has made lately, for the rules that limit them: a token bucket for each rule and user,
// which holds what a rule gives for one second. One thread.
class RequestRates {
 public:
  // Counts one request of `uid` by `rule`, which has the quota. Where there have been too many it is not counted, and
  // has to wait for so long. `now` does not go back.
  std::optional<absl::Duration> Take(const Rule& rule, uint32_t uid, absl::Time now);

  // Another policy's rules count from now on. Those of the same name and rate go on counting where they were.
  void Keep(const Policy& policy);

  size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    uint32_t rate = 0;
    // When it is full again; the time until then is what has been taken.
    absl::Time full = absl::InfinitePast();
  };

  // A full bucket is as good as none. Those that are not are of users who have asked within the last second.
  void DropFullOnes(absl::Time now);

  std::map<std::pair<std::string, uint32_t>, Bucket> buckets_;  // By rule and user.
  size_t most_ = 0;                                             // That there may be before the full ones are dropped.
};

}  // namespace rdmabroker

#endif  // BROKER_POLICY_REQUEST_RATES_H_
