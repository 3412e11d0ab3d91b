// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_PORT_COUNTERS_H_
#define BROKER_MONITORING_PORT_COUNTERS_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "broker/monitoring/snapshot.h"

namespace rdmabroker {

// Where the kernel shows its RDMA devices.
inline constexpr char kDevicesDirectory[] = "/sys/class/infiniband";

// NDKPI's counters of the data path, which is not the broker's: what the kernel has counted at the ports of the
// adapters' devices, below such a directory, and which of these counters an adapter lacks. Reads a few small files for
// each port, as fast as the device's driver answers. Any thread.
std::vector<prometheus::MetricFamily> PortFamilies(const std::string& devices,
                                                   const std::vector<Snapshot::Adapter>& adapters);

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_PORT_COUNTERS_H_
