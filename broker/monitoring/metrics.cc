// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/metrics.h"

#include <variant>

#include "broker/monitoring/families.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Registry;

// From a call of the kernel's on this machine to the longest of the timeouts' defaults.
const prometheus::Histogram::BucketBoundaries kSteps = {
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
// From a write into memory to what the supervisor's watchdog ends.
const prometheus::Histogram::BucketBoundaries kCommits = {5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3,
                                                          2e-3, 5e-3,  0.01,  0.02,  0.05,   0.1,    0.5,    1};
const prometheus::Histogram::BucketBoundaries kLags = {100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05,
                                                       0.1,    0.2,    0.5,    1,    2,    5,    10,   30};

// Half of a user's share of a turn (UserTurns), and multiples of what one user may delay another by.
const prometheus::Histogram::BucketBoundaries kOthers = {0, 32, 64, 128, 256, 512, 1024, 2048, 4096};

// By HandshakeStep, and whether a side has it.
struct StepRow {
  const char* name;
  bool active;
  bool passive;
};
constexpr std::array<StepRow, kHandshakeSteps> kStepRows = {{{"bind", true, true},
                                                             {"connect", true, false},
                                                             {"complete", true, false},
                                                             {"decide", false, true},
                                                             {"accept", false, true},
                                                             {"hand_off", true, true},
                                                             {"disconnect", true, true}}};

enum Ending : size_t { kGoodbye, kClientGone, kAdministrator, kGraceOver };

constexpr std::array<const char*, 4> kEndings = {"goodbye", "client_gone", "administrator", "grace_over"};
constexpr std::array<const char*, kCallerRefusals> kCallers = {
    "too_many_connections", "silent", "hand_off", "not_named", "revoked", "excess"};
// Of a limit that is reached there is an alert, and Prometheus sees no increase in a series that begins with its first
// count: these are there from the beginning.
constexpr NdkStatus kOfLimits = NdkStatus::kInsufficientResources;
constexpr std::array<const char*, 2> kDecisions = {"allowed", "refused"};

Counter& Plain(Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

template <size_t N>
std::array<Counter*, N> Labelled(Registry& registry, const char* name, const char* help, const char* label,
                                 const std::array<const char*, N>& values) {
  auto& family = BuildCounter().Name(name).Help(help).Register(registry);
  std::array<Counter*, N> counters;
  for (size_t i = 0; i < N; ++i) counters[i] = &family.Add({{label, values[i]}});
  return counters;
}

prometheus::Histogram& Distribution(Registry& registry, const char* name, const char* help,
                                    const prometheus::Histogram::BucketBoundaries& buckets) {
  return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace

Metrics::Metrics()
    : steps_([this](Side side, HandshakeStep step, absl::Duration took) {
        auto* const histogram = step_seconds_[static_cast<size_t>(side)][static_cast<size_t>(step)];
        if (histogram != nullptr) histogram->Observe(absl::ToDoubleSeconds(took));
      }),
      requests_(BuildCounter()
                    .Name("rdma_broker_requests_total")
                    .Help("Clients' requests, by what they were answered at once.")
                    .Register(registry_)),
      refused_sessions_(BuildCounter()
                            .Name("rdma_broker_sessions_refused_total")
                            .Help("Sessions that were not opened or not resumed.")
                            .Register(registry_)),
      opened_(Plain(registry_, "rdma_broker_sessions_opened_total", "Sessions that were opened.")),
      resumed_(Plain(registry_, "rdma_broker_sessions_resumed_total", "Returns of clients to their sessions.")),
      ended_(Labelled(registry_, "rdma_broker_sessions_ended_total", "Sessions that have ended.", "reason", kEndings)),
      events_(Plain(registry_, "rdma_broker_events_sent_total", "Events that were sent to clients.")),
      callers_(Labelled(registry_, "rdma_broker_callers_refused_total",
                        "Callers who were not served at a socket of the broker's.", "reason", kCallers)),
      decisions_(Labelled(registry_, "rdma_broker_policy_decisions_total", "Decisions by the rules of the policy.",
                          "decision", kDecisions)),
      commits_(Plain(registry_, "rdma_broker_store_commits_total", "Commits of the store.")),
      commit_failures_(Plain(registry_, "rdma_broker_store_commit_failures_total", "Commits that failed.")),
      commit_seconds_(Distribution(registry_, "rdma_broker_store_commit_seconds", "How long commits took.", kCommits)),
      lag_(Distribution(registry_, "rdma_broker_loop_lag_seconds", "How late the loop came to a timer of each second.",
                        kLags)),
      others_(Distribution(registry_, "rdma_broker_requests_of_others_before",
                           "Requests of other users that were served while a client's work waited.", kOthers)),
      long_turns_(Plain(registry_, "rdma_broker_loop_long_turns_total",
                        "Turns of the loop that took more than 10 ms, in which clients waited.")),
      recovery_(BuildGauge()
                    .Name("rdma_broker_recovery_seconds")
                    .Help("From the process's start until it served.")
                    .Register(registry_)
                    .Add({})) {
  // A family without a series is not on the page; whoever looks for it would think that it is not counted.
  requests_.Add({{"request", "OpenAdapter"}, {"status", std::string(StatusName(NdkStatus::kSuccess))}});
  for (const NdkStatus status : {NdkStatus::kAccessDenied, kOfLimits}) {
    refused_sessions_.Add({{"status", std::string(StatusName(status))}});
  }
  auto& steps = BuildHistogram()
                    .Name("rdma_broker_handshake_step_seconds")
                    .Help("How long the steps of handshakes took that succeeded.")
                    .Register(registry_);
  for (size_t i = 0; i < kHandshakeSteps; ++i) {
    for (const Side side : {Side::kActive, Side::kPassive}) {
      if (!(side == Side::kActive ? kStepRows[i].active : kStepRows[i].passive)) continue;
      step_seconds_[static_cast<size_t>(side)][i] =
          &steps.Add({{"side", std::string(NameOf(side))}, {"step", kStepRows[i].name}}, kSteps);
    }
  }
}

void Metrics::Observe(Instant now, const Event& event, const Effects& effects) {
  steps_.Observe(now, event, effects);
  for (const Effect& effect : effects) {
    if (std::holds_alternative<SessionEnded>(effect)) CountEnded(event);
    if (!std::holds_alternative<SessionOpened>(effect)) continue;
    (std::holds_alternative<OpenSession>(event) ? opened_ : resumed_).Increment();
  }
}

// A session ends by one of four events.
void Metrics::CountEnded(const Event& event) {
  Ending ending = std::holds_alternative<StreamLost>(event) ? kClientGone : kGraceOver;
  if (const auto* end = std::get_if<EndSession>(&event)) {
    ending = end->by == SessionEndedBy::kGoodbye      ? kGoodbye
             : end->by == SessionEndedBy::kClientGone ? kClientGone
                                                      : kAdministrator;
  }
  ended_[ending]->Increment();
}

Counter& Metrics::CounterOf(absl::string_view request, NdkStatus status) {
  Counter*& counter = requests_by_outcome_[{std::string(request), status}];
  if (counter == nullptr) {
    counter = &requests_.Add({{"request", std::string(request)}, {"status", std::string(StatusName(status))}});
  }
  return *counter;
}

void Metrics::ExpectRequest(absl::string_view request) { CounterOf(request, kOfLimits); }

void Metrics::CountRequest(absl::string_view request, NdkStatus status) { CounterOf(request, status).Increment(); }

void Metrics::CountRefusedSession(NdkStatus status) {
  refused_sessions_.Add({{"status", std::string(StatusName(status))}}).Increment();
}

void Metrics::CountCommit(absl::Duration took, bool stored) {
  (stored ? commits_ : commit_failures_).Increment();
  commit_seconds_.Observe(absl::ToDoubleSeconds(took));
}

}  // namespace rdmabroker
