// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_UNKNOWN_RECORDS_H_
#define BROKER_FABRIC_UNKNOWN_RECORDS_H_

#include "broker/core/state.h"
#include "broker/fabric/fabric_records.h"

namespace rdmabroker {

// Erases what fabrics have kept of objects that the core does not have. For whoever loads both, before any fabric
// works: no fabric knows which of the other records are another's.
void DropUnknown(const Records& records, FabricRecords* kept);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_UNKNOWN_RECORDS_H_
