// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_SURVIVAL_SURVIVAL_H_
#define BROKER_SURVIVAL_SURVIVAL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/core/broker_core.h"
#include "broker/fabric/fabric_records.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/warning_limit.h"
#include "broker/store/store.h"

namespace rdmabroker {

// By what a broker goes on where the process before it was: the records of its core and its fabrics, and the
// descriptors that belong to them. One thread.
class Survival {
 public:
  // Reads what there is in `directory`, which is made where it is not there; a store that is damaged is set aside, and
  // said so. `descriptors` outlives it. It forks: call it before there are other threads.
  //
  // FAILED_PRECONDITION where a newer broker has written the store, UNAVAILABLE where another one has it. INTERNAL
  // where it cannot be read now, and may be sound: it and what is kept are left to the next process then.
  static absl::StatusOr<std::unique_ptr<Survival>> Open(const std::string& directory, const Limits& limits,
                                                        DescriptorKeep& descriptors);

  // Once: the core of the process before, or a new one.
  BrokerCore TakeCore() { return std::move(core_); }
  FabricRecords& of_fabrics() { return of_fabrics_; }
  DescriptorKeep& descriptors() { return descriptors_; }
  // Before TakeCore: the process before has left sessions, addresses or connections, or descriptors besides the sockets
  // on which clients wait.
  bool takes_over() const;
  // Called after each commit that had something to store, with how long it took and whether it was stored.
  void OnCommit(std::function<void(absl::Duration took, bool stored)> heard) { heard_ = std::move(heard); }
  // There were no records, or none that were of use: what there is besides them nobody knows.
  bool begins_anew() const { return begins_anew_; }

  // Stores what has changed since the last time. False where it could not, which is said so, and is made up for the
  // next time: the connections that there are matter more than those that a death would cost.
  bool Commit(BrokerCore& core);

 private:
  Survival(std::unique_ptr<Store> store, const Limits& limits, DescriptorKeep& descriptors);
  // Nothing where there is nothing to go on with.
  absl::Status Restore(const Limits& limits, const std::string& boot_id);
  absl::Status SetAside(const absl::Status& cause);

  std::unique_ptr<Store> store_;
  DescriptorKeep& descriptors_;
  BrokerCore core_;
  FabricRecords of_fabrics_;
  bool begins_anew_ = true;
  WarningLimit failures_;
  std::function<void(absl::Duration, bool)> heard_;
};

}  // namespace rdmabroker

#endif  // BROKER_SURVIVAL_SURVIVAL_H_
