// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_FABRIC_H_
#define BROKER_FABRIC_FABRIC_H_

#include <functional>

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

// Takes a fabric's reports, on the loop thread. It may be called from inside Fabric::Perform; it queues the report and
// returns.
using ReportSink = std::function<void(FabricReport)>;

// A connection manager: carries out what the core asks and reports what happens, by the contract in fabric_messages.h.
// It decides nothing: which address conflicts, who is refused and when to give up is the core's.
//
// Lives on the loop thread: every function is called there and none blocks. A fabric is destroyed only after every
// connection it reported or was asked for has been released and every endpoint unbound, or with the process.
class Fabric {
 public:
  virtual ~Fabric() = default;

  // Reports the devices there are (DeviceChanged), now and whenever they change. Called once, before anything else.
  virtual void Start(ReportSink sink) = 0;

  // `request` names one of this fabric's devices.
  virtual void Perform(const FabricRequest& request) = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_FABRIC_H_
