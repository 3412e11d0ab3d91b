// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/unknown_records.h"

#include <string>
#include <utility>
#include <vector>

namespace rdmabroker {
namespace {

template <typename Id, typename Record>
void DropUnknown(const Table<Id, Record>& objects, Table<Id, std::string>* kept) {
  std::vector<Id> unknown;
  for (const auto& [id, record] : std::as_const(*kept)) {
    if (!objects.contains(id)) unknown.push_back(id);
  }
  for (const Id id : unknown) kept->erase(id);
}

}  // namespace

void DropUnknown(const Records& records, FabricRecords* kept) {
  DropUnknown(records.endpoints, &kept->endpoints);
  DropUnknown(records.connections, &kept->connections);
}

}  // namespace rdmabroker
