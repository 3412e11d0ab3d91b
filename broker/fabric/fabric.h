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

  // How the system would send to a destination now, from whatever device. A fabric that knows no routes has none.
  virtual Route RouteTo(const SocketAddress&) const { return {}; }

  // Another process is about to go on in this one's place. A fabric whose handshakes would end with the process begins
  // none from now on, and fails none for that: who comes to a listener waits for the next process, if something keeps
  // the listener until then, and a connection of which nothing has left yet is begun by the next fabric, when it adopts
  // that. The handshakes that are under way go on, and all else is done as ever. A fabric whose handshakes go on in the
  // next process need do nothing. At most once.
  virtual void MakeWay() {}

  // Whether handshakes are under way that the process's end would cut.
  virtual bool HasHandshakes() const { return false; }
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_FABRIC_H_
