// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_METRICS_H_
#define BROKER_MONITORING_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/monitoring/handshake_steps.h"

namespace rdmabroker {

// Why somebody was not served who came to a socket of the broker's.
enum class CallerRefusal : uint8_t {
  kTooManyConnections,  // control.connections_per_uid.
  kSilent,              // Said nothing for control.patience_ms.
  kHandOff,             // Asked for a transport that is not the caller's.
  kNotNamed,            // Over TCP: by its certificate nobody who may do anything.
  kRevoked,             // Over TCP: its certificate is revoked, or may be.
  kExcess,              // Sent too many frames, or left too much unserved or unread.
};
inline constexpr size_t kCallerRefusals = static_cast<size_t>(CallerRefusal::kExcess) + 1;

// What is counted as it happens, since the process began; docs/operating.md says what each is. What can be seen in the
// core's records is not counted here but looked up (Snapshot). Loop thread only, but for Collect.
class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // What the core made of `event` at `now`.
  void Observe(Instant now, const Event& event, const Effects& effects);
  // Clients may make this request, by its name in the contract: there are the series that an alert looks at, with 0.
  void ExpectRequest(absl::string_view request);
  // Such a request was answered so at once.
  void CountRequest(absl::string_view request, NdkStatus status);
  void CountRefusedSession(NdkStatus status);
  // This many events were sent to a client, for the first time or again.
  void CountEvents(uint64_t events) { events_.Increment(static_cast<double>(events)); }
  void CountRefusedCaller(CallerRefusal refusal, uint64_t count = 1) {
    callers_[static_cast<size_t>(refusal)]->Increment(static_cast<double>(count));
  }
  // A decision by the configured rules on what a caller may do.
  void CountDecision(bool allowed) { decisions_[allowed ? 0 : 1]->Increment(); }
  // A commit of the store, which took so long.
  void CountCommit(absl::Duration took, bool stored);
  // How much later than asked for the loop thread came to something.
  void CountLag(absl::Duration lag) { lag_.Observe(absl::ToDoubleSeconds(lag)); }
  // Counts a piece of a client's work that waited while `requests` requests of other users were served.
  void CountOthers(uint64_t requests) { others_.Observe(static_cast<double>(requests)); }
  // A turn of the loop that has held clients up.
  void CountLongTurn() { long_turns_.Increment(); }
  // From the process's start until it served.
  void ShowRecovery(absl::Duration took) { recovery_.Set(absl::ToDoubleSeconds(took)); }

  // Any thread, which waits for the loop thread while that raises a number, and the other way round.
  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  using ByLabel = prometheus::Family<prometheus::Counter>;

  void CountEnded(const Event& event);
  prometheus::Counter& CounterOf(absl::string_view request, NdkStatus status);

  prometheus::Registry registry_;
  HandshakeSteps steps_;
  ByLabel& requests_;
  absl::flat_hash_map<std::pair<std::string, NdkStatus>, prometheus::Counter*> requests_by_outcome_;
  ByLabel& refused_sessions_;
  prometheus::Counter& opened_;
  prometheus::Counter& resumed_;
  std::array<prometheus::Counter*, 4> ended_;  // By the reason; see metrics.cc.
  prometheus::Counter& events_;
  std::array<prometheus::Counter*, kCallerRefusals> callers_;
  std::array<prometheus::Counter*, 2> decisions_;
  prometheus::Counter& commits_;
  prometheus::Counter& commit_failures_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Histogram& lag_;
  prometheus::Histogram& others_;
  prometheus::Counter& long_turns_;
  prometheus::Gauge& recovery_;
  std::array<std::array<prometheus::Histogram*, kHandshakeSteps>, 2> step_seconds_ = {};  // By Side and HandshakeStep.
};

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_METRICS_H_
