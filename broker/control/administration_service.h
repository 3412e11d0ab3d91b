// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
#define BROKER_CONTROL_ADMINISTRATION_SERVICE_H_

#include <functional>

#include "broker/control/broker.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/services.h"

namespace rdmabroker {

// What administrators have the process do.
struct ProcessOrders {
  // Begins to let another process take this one's place; false where nobody would start it.
  std::function<bool()> restart;
  // Reads the configuration again. `done` is called in any case, now or later, also where the process stops.
  std::function<void(ReloadDone done)> reload;
};

// Serves rdmabroker.v1.Administration. The broker must outlive the services.
void ServeAdministration(Services& services, Broker& broker, ProcessOrders orders);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ADMINISTRATION_SERVICE_H_
