// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_FABRIC_RECORDS_H_
#define BROKER_FABRIC_FABRIC_RECORDS_H_

#include <string>
#include <vector>

#include "broker/core/ids.h"
#include "broker/core/table.h"

namespace rdmabroker {

// What fabrics know of the core's objects that their successors in another process must know too, kept beside the
// core's Records: at most one string for each object, which the fabric of its device alone understands. A fabric erases
// what it has written, at the latest when the object ends.
//
// What is written here is kept from the next commit on, which comes before the core's effects of what the fabric then
// reports. So a successor may find an object without its record, and a record of an object that the core has not.
struct FabricRecords {
  Table<EndpointId, std::string> endpoints;
  Table<ConnectionId, std::string> connections;

  bool operator==(const FabricRecords&) const = default;
};

// Which of them may differ from what they were; one that is not there any more is gone.
struct FabricChanges {
  // Each id once, in order.
  std::vector<EndpointId> endpoints;
  std::vector<ConnectionId> connections;

  bool operator==(const FabricChanges&) const = default;
};

// Since the last call. The first one gives none, and begins the noting (table.h).
inline FabricChanges TakeChanges(FabricRecords& records) {
  return {records.endpoints.TakeNotes(), records.connections.TakeNotes()};
}

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_FABRIC_RECORDS_H_
