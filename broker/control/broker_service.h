// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_BROKER_SERVICE_H_
#define BROKER_CONTROL_BROKER_SERVICE_H_

#include "broker/control/broker.h"
#include "broker/control/services.h"
#include "broker/monitoring/metrics.h"

namespace rdmabroker {

// Serves the requests of rdmabroker.v1.Broker that come by RPCs; its stream is SessionStream's. All must outlive the
// services.
void ServeRequests(Services& services, Broker& broker, Metrics& metrics);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_BROKER_SERVICE_H_
