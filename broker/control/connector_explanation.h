// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONNECTOR_EXPLANATION_H_
#define BROKER_CONTROL_CONNECTOR_EXPLANATION_H_

#include <vector>

#include "absl/time/time.h"
#include "broker/control/view.h"
#include "broker/core/state.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker {

// What to do about a connector that waits so, or about one that cannot go on after such a failure. docs/operating.md
// has all of them.
struct WaitAdvice {
  v1::ConnectorWait waits_for;
  const char* advice;
};
struct FailureAdvice {
  v1::NdkStatus failure;
  const char* advice;
};
std::vector<WaitAdvice> AdviceOnWaits();
// The last one is for every other status.
std::vector<FailureAdvice> AdviceOnFailures();

v1::ConnectorWait WaitOf(const Records& records, const ConnectorRecord& connector);

// Why the connector, which the caller may see, is as it is. `to_wall_clock` is what the clock of people is ahead of the
// core's.
void Explain(const Records& records, const Index& index, const View& view, const ConnectorRecord& connector,
             absl::Duration to_wall_clock, v1::ExplainConnectorReply* reply);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONNECTOR_EXPLANATION_H_
