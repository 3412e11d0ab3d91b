// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_ROUND_TRIP_FOR_TEST_H_
#define BROKER_STORE_ROUND_TRIP_FOR_TEST_H_

#include <set>

#include "absl/status/status.h"
#include "broker/core/changes.h"
#include "broker/core/state.h"

namespace rdmabroker {

// Each of the records that have changed, and of the sessions' answers and events, is itself after it was made a message
// and read: INTERNAL, with the message of the first that is not.
absl::Status CheckRoundTrips(const Records& records, const Changes& changes);

// What can be in records by kind, as far as they have had it: that a test's records have had everything.
class Variety {
 public:
  void Note(const Records& records);
  // INTERNAL, naming a kind of which something has not occurred.
  [[nodiscard]] absl::Status Check() const;

 private:
  void Note(const SessionRecord& session);

  std::set<ConnectorState> connectors_;
  std::set<ListenerState> listeners_;
  std::set<EndpointState> endpoints_;
  std::set<EndpointUse> uses_;
  std::set<size_t> payloads_;
  std::set<size_t> events_;
};

}  // namespace rdmabroker

#endif  // BROKER_STORE_ROUND_TRIP_FOR_TEST_H_
