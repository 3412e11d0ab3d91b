// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_FABRIC_PAST_H_
#define TESTS_CONFORMANCE_FABRIC_PAST_H_

#include <memory>

#include "broker/fabric/fabric_records.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"

namespace rdmabroker {

// What outlives a fabric's process. It outlives the fabric.
class FabricPast {
 public:
  // Without a supervisor nothing but the records does.
  explicit FabricPast(bool supervised) : supervisor_(supervised) {}
  FabricPast(const FabricPast&) = delete;
  FabricPast& operator=(const FabricPast&) = delete;

  DescriptorKeep& keep() { return *keep_; }
  FabricRecords& records() { return records_; }
  // The process has died, and its fabric with it.
  void Restart() {
    keep_->Committed();
    supervisor_.Restart();
    keep_ = std::make_unique<DescriptorKeep>(supervisor_);
  }

 private:
  FakeSupervisor supervisor_;
  FabricRecords records_;
  std::unique_ptr<DescriptorKeep> keep_ = std::make_unique<DescriptorKeep>(supervisor_);
};

}  // namespace rdmabroker

#endif  // TESTS_CONFORMANCE_FABRIC_PAST_H_
