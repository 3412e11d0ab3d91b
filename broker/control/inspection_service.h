// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_INSPECTION_SERVICE_H_
#define BROKER_CONTROL_INSPECTION_SERVICE_H_

#include "broker/control/broker.h"
#include "broker/control/services.h"

namespace rdmabroker {

// Serves rdmabroker.v1.Inspection but for its Watch, which is WatchService's. The broker must outlive the services.
void ServeInspection(Services& services, Broker& broker);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_INSPECTION_SERVICE_H_
