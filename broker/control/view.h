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

  // Administrators and inspectors see every session, others those of their user (Caller::IsUserOf).
  bool Shows(const SessionRecord& session) const {
    return caller_.administrator || caller_.inspector || IsOwn(session.id);
  }
  bool Shows(const DeviceRecord& device) const { return gate_.Shows(caller_, device.device.name); }
  // What a session has on a device: a user sees his own, also where he may not open the device any more.
  template <typename Record>
  bool Shows(const Record& record) const {
    if (caller_.administrator || IsOwn(SessionOf(records_, record))) return true;
    return caller_.inspector && Shows(DeviceOf(records_, record));
  }
  // How much all users together do on a device.
  bool ShowsActivity() const { return caller_.administrator || caller_.inspector; }

 private:
  bool IsOwn(SessionId id) const {
    const auto session = records_.sessions.find(id);
    return session != records_.sessions.end() && caller_.IsUserOf(session->second.identity);
  }

  Caller caller_;
  const Records& records_;
  const Gate& gate_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_VIEW_H_
