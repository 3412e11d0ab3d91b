// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_VIEW_H_
#define BROKER_CONTROL_VIEW_H_

#include <utility>

#include "broker/control/caller.h"
#include "broker/control/gate.h"
#include "broker/control/inspection_rows.h"
#include "broker/core/state.h"

namespace rdmabroker {

// What one caller may know to be there. To leave out what is not shown is all that tells it from what is not there.
class View {
 public:
  // `records` and `gate` are looked at whenever it is asked.
  View(Caller caller, const Records& records, const Gate& gate)
      : caller_(std::move(caller)), records_(records), gate_(gate) {}

  // Administrators and inspectors see every session, and what is its; others those of their user.
  bool Shows(SessionId id) const {
    if (caller_.administrator || caller_.inspector) return true;
    const auto session = records_.sessions.find(id);
    // A caller of the TCP port is no user of this machine, whatever its identity says.
    return session != records_.sessions.end() && !caller_.IsRemote() &&
           session->second.identity.uid == caller_.identity.uid;
  }
  // Whatever belongs to a session.
  template <typename Record>
  bool Shows(const Record& record) const {
    return Shows(SessionOf(records_, record));
  }
  bool Shows(const DeviceRecord& device) const { return gate_.Shows(caller_, device.device.name); }

 private:
  Caller caller_;
  const Records& records_;
  const Gate& gate_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_VIEW_H_
