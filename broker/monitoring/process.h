// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_PROCESS_H_
#define BROKER_MONITORING_PROCESS_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace rdmabroker {

// What Prometheus' client libraries tell of their process, by their names: time of the processor, memory, descriptors,
// start. What cannot be read is left out. Any thread.
std::vector<prometheus::MetricFamily> ProcessFamilies();

// How full the file system of the store is. None where there is no such folder. Any thread.
std::vector<prometheus::MetricFamily> StoreFamilies(const std::string& directory);

// Which version this is, and how often it has logged what is a warning or worse.
std::vector<prometheus::MetricFamily> ProgramFamilies();

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_PROCESS_H_
