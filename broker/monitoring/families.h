// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_FAMILIES_H_
#define BROKER_MONITORING_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "broker/monitoring/snapshot.h"

namespace rdmabroker {

// A family of counters or gauges, made up for one scrape.
class Family {
 public:
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  Family(prometheus::MetricType type, absl::string_view name, absl::string_view help);

  Family& Add(double value, const Labels& labels = {}) &;
  Family Add(double value, const Labels& labels = {}) &&;
  prometheus::MetricFamily Take() && { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

Family CounterFamily(absl::string_view name, absl::string_view help);
Family GaugeFamily(absl::string_view name, absl::string_view help);

// "active", "passive".
absl::string_view NameOf(Side side);

// docs/operating.md says what each one is.
std::vector<prometheus::MetricFamily> FamiliesOf(const Snapshot& snapshot);

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_FAMILIES_H_
