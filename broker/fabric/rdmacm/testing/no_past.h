// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_NO_PAST_H_
#define BROKER_FABRIC_RDMACM_TESTING_NO_PAST_H_

#include "broker/fabric/fabric_records.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"

namespace rdmabroker {

// That of a fabric whose process nobody supervises. It outlives the fabric.
class NoPast {
 public:
  NoPast() = default;
  NoPast(const NoPast&) = delete;
  NoPast& operator=(const NoPast&) = delete;

  RdmaCmPast past() { return {keep_, records_, {}, false}; }

 private:
  FakeSupervisor supervisor_{false};
  DescriptorKeep keep_{supervisor_};
  FabricRecords records_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_NO_PAST_H_
