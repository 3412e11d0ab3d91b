// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_VIEW_H_
#define BROKER_CONTROL_VIEW_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "broker/control/caller.h"
#include "broker/control/gate.h"
#include "broker/control/inspection_rows.h"
#include "broker/core/index.h"
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
  // Calls `use` with each record that the view shows and whose id is greater than `after`, in the order of ids, until
  // `use` returns false. `ids` are the table's (Index::lists). Returns the value of `after` for the next call, or
  // nothing at the end of the table. One call looks at kMostLooks records at most, shown or not.
  template <typename Id, typename Record, typename Use>
  std::optional<Id> Walk(const OrderedIds<Id>& ids, const Table<Id, Record>& table, Id after, Use use) const {
    const absl::btree_set<Id>* const mine = MineOf(ids);
    if (mine == nullptr) return std::nullopt;
    size_t looks = 0;
    for (auto next = mine->upper_bound(after); next != mine->end(); ++next) {
      if (++looks > kMostLooks) return after;
      const Record& record = table.at(*next);
      if (Shows(record) && !use(record)) return after;
      after = *next;
    }
    return std::nullopt;
  }
  // A fraction of a millisecond.
  static constexpr size_t kMostLooks = 4096;

  // How much all users together do on a device.
  bool ShowsActivity() const { return caller_.administrator || caller_.inspector; }

 private:
  bool IsOwn(SessionId id) const {
    const auto session = records_.sessions.find(id);
    return session != records_.sessions.end() && caller_.IsUserOf(session->second.identity);
  }

  // Everybody's for who may see others' rows; nullptr for none.
  template <typename Id>
  const absl::btree_set<Id>* MineOf(const OrderedIds<Id>& ids) const {
    if (caller_.administrator || caller_.inspector) return &ids.all;
    const auto found = ids.of_user.find(caller_.identity.uid);
    return found == ids.of_user.end() ? nullptr : &found->second;
  }

  Caller caller_;
  const Records& records_;
  const Gate& gate_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_VIEW_H_
