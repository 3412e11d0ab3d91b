// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "broker/core/broker_core.h"
#include "broker/monitoring/exposition.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/loop_for_test.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The value of the one series of the page, or "none".
std::string ValueOf(const std::string& page, const std::string& series) {
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, series + " ")) return std::string(line.substr(series.size() + 1));
  }
  return "none";
}

class MetricsTest : public testing::Test {
 protected:
  void Handle(const Event& event) {
    now_ += absl::Seconds(1);
    metrics_.Observe(now_, event, core_.Handle(now_, event));
  }
  // Session `number`, which is the next one.
  void Open(uint64_t number) { Handle(OpenSession{StreamId(number), {1000, 1000, 1}, {}}); }

  // Pages ask the loop thread, which is this one.
  std::string Page() {
    std::string page;
    bool made = false;
    std::thread scraper([&] {
      page = exposition_.Page();
      loop_.Post([&] { made = true; });
    });
    EXPECT_TRUE(RunUntil(loop_, [&] { return made; }));
    scraper.join();
    absl::SleepFor(Exposition::kFreshness);
    return page;
  }
  std::string ValueOnPage(const std::string& series) { return ValueOf(Page(), series); }

  Instant now_ = absl::UnixEpoch();
  Limits limits_;
  BrokerCore core_{limits_};
  Metrics metrics_;
  Loop loop_;
  TemporaryFolder devices_;  // The kernel's.
  Exposition exposition_{
      loop_, [this] { return TakeSnapshot(core_); }, metrics_, {"/", devices_.path()}, absl::Seconds(30)};
};

TEST_F(MetricsTest, ASessionsEndHasItsReason) {
  for (uint64_t id = 1; id <= 6; ++id) Open(id);
  Handle(EndSession{SessionId(1), SessionEndedBy::kGoodbye});
  Handle(EndSession{SessionId(2), SessionEndedBy::kAdministrator});
  Handle(EndSession{SessionId(3), SessionEndedBy::kClientGone});
  Handle(StreamLost{SessionId(4), StreamId(4), StreamEnd::kClient});
  Handle(StreamLost{SessionId(5), StreamId(5), StreamEnd::kBroker});
  now_ += limits_.session_grace;
  Handle(DeadlineReached{});
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_opened_total"), "6");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_ended_total{reason=\"goodbye\"}"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_ended_total{reason=\"administrator\"}"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_ended_total{reason=\"client_gone\"}"), "2");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_ended_total{reason=\"grace_over\"}"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions{state=\"open\"}"), "1");
}

TEST_F(MetricsTest, AReturnIsNoOpening) {
  Open(1);
  Handle(StreamLost{SessionId(1), StreamId(1), StreamEnd::kBroker});
  EXPECT_EQ(ValueOnPage("rdma_broker_sessions{state=\"away\"}"), "1");
  Handle(ResumeSession{StreamId(2), SessionId(1), {1000, 1000, 1}, {}, EventNumber()});
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_opened_total"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_resumed_total"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions{state=\"open\"}"), "1");
}

TEST_F(MetricsTest, ThousandSessionsHaveSeriesAndTheOthersAreCounted) {
  limits_.sessions_per_uid = 10'000;
  core_ = BrokerCore(limits_);
  for (uint64_t id = 1; id <= kSessionsShown; ++id) Open(id);
  EXPECT_EQ(ValueOnPage("rdma_broker_sessions_left_out"), "0");
  Open(kSessionsShown + 1);
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, "rdma_broker_session_connectors{session=\"1000\"}"), "0");
  EXPECT_EQ(ValueOf(page, "rdma_broker_session_connectors{session=\"1001\"}"), "none");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_left_out"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions{state=\"open\"}"), "1001");
  // Whoever comes later has the place of one that has gone.
  Handle(EndSession{SessionId(1)});
  EXPECT_EQ(ValueOnPage("rdma_broker_session_connectors{session=\"1001\"}"), "0");
}

TEST_F(MetricsTest, AnAdapterIsNamedByItsDeviceOnce) {
  Device device;
  device.name = "mlx5_0";
  device.id = DeviceId(1);
  Handle(FabricReport(DeviceChanged{device}));
  Handle(FabricReport(DeviceRemoved{device.id}));
  EXPECT_EQ(ValueOnPage("rdma_broker_adapter_state{adapter=\"mlx5_0\",state=\"enabled\"}"), "none");
  device.id = DeviceId(2);
  Handle(FabricReport(DeviceChanged{device}));
  EXPECT_EQ(ValueOnPage("rdma_broker_adapter_state{adapter=\"mlx5_0\",state=\"enabled\"}"), "1");
  Handle(DisableDevice{device.id});
  EXPECT_EQ(ValueOnPage("rdma_broker_adapter_state{adapter=\"mlx5_0\",state=\"disabled\"}"), "1");
  Handle(EnableDevice{device.id});
  device.unusable_reason = "its port is down";
  Handle(FabricReport(DeviceChanged{device}));
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_state{adapter=\"mlx5_0\",state=\"unusable\"}"), "1");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_state{adapter=\"mlx5_0\",state=\"enabled\"}"), "0");
}

// What of NDKPI's MissingCounterMask the page says of the adapter: names of counters.
std::set<std::string> MissingAt(const std::string& page, const std::string& adapter) {
  std::set<std::string> missing;
  for (const char* counter : {"in_octets", "out_octets", "in_frames", "out_frames", "cq_errors"}) {
    const std::string value = ValueOf(page, absl::StrCat("rdma_broker_adapter_missing_counters{adapter=\"", adapter,
                                                         "\",counter=\"", counter, "\"}"));
    EXPECT_THAT(value, AnyOf("0", "1")) << adapter << " " << counter;
    if (value == "1") missing.insert(counter);
  }
  return missing;
}

TEST_F(MetricsTest, WhatTheKernelCountsAtPortsIsShownAndTheRestIsSaidToBeMissing) {
  const struct {
    const char* file;
    const char* text;
  } files[] = {
      {"mlx5_0/ports/1/counters/port_rcv_data", "1000\n"},
      {"mlx5_0/ports/2/counters/port_rcv_data", "1\n"},
      {"mlx5_0/ports/1/counters/port_xmit_data", "2000\n"},
      {"mlx5_0/ports/2/counters/port_xmit_data", "2\n"},
      {"mlx5_0/ports/1/counters/port_rcv_packets", "30\n"},
      {"mlx5_0/ports/2/counters/port_rcv_packets", "3\n"},
      {"mlx5_0/ports/1/counters/port_xmit_packets", "40\n"},
      {"mlx5_0/ports/2/counters/port_xmit_packets", "4\n"},
      // One port says nothing, or what is no number.
      {"mlx5_1/ports/1/counters/port_rcv_data", "7\n"},
      {"mlx5_1/ports/2/counters/port_xmit_data", "7\n"},
      {"mlx5_1/ports/1/counters/port_rcv_packets", "7\n"},
      {"mlx5_1/ports/2/counters/port_rcv_packets", "-7\n"},
      {"mlx5_1/ports/1/counters/port_xmit_packets", "7\n"},
      {"mlx5_1/ports/2/counters/port_xmit_packets", ""},
      {"rxe0/ports/1/counters/port_rcv_packets", "N/A (no PMA)\n"},
      {"rxe0/ports/1/hw_counters/rcvd_pkts", "5\n"},
      {"rxe0/ports/1/hw_counters/sent_pkts", "6\n"},
      {"siw0/ports/1/state", "4: ACTIVE\n"},
      {"siw1/node_type", "4: RNIC\n"},
  };
  for (const auto& [file, text] : files) {
    const std::filesystem::path path = std::filesystem::path(devices_.path()) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  uint64_t number = 0;
  for (const char* name : {"iwarp0", "mlx5_0", "mlx5_1", "rxe0", "siw0", "siw1"}) {
    Device device;
    device.name = name;
    device.id = DeviceId(++number);
    Handle(FabricReport(DeviceChanged{device}));
  }
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_in_octets_total{adapter=\"mlx5_0\"}"), "4004");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_out_octets_total{adapter=\"mlx5_0\"}"), "8008");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_in_frames_total{adapter=\"mlx5_0\"}"), "33");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_out_frames_total{adapter=\"mlx5_0\"}"), "44");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_in_frames_total{adapter=\"rxe0\"}"), "5");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_out_frames_total{adapter=\"rxe0\"}"), "6");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_in_octets_total{adapter=\"rxe0\"}"), "none");
  EXPECT_EQ(ValueOf(page, "rdma_broker_adapter_in_octets_total{adapter=\"mlx5_1\"}"), "none");
  EXPECT_THAT(MissingAt(page, "mlx5_0"), ElementsAre("cq_errors"));
  EXPECT_THAT(MissingAt(page, "rxe0"), ElementsAre("cq_errors", "in_octets", "out_octets"));
  for (const char* adapter : {"iwarp0", "mlx5_1", "siw0", "siw1"}) {
    EXPECT_THAT(MissingAt(page, adapter),
                ElementsAre("cq_errors", "in_frames", "in_octets", "out_frames", "out_octets"))
        << adapter;
  }
}

TEST_F(MetricsTest, WhatALimitRefusesIsShownBeforeItHasRefusedAnything) {
  metrics_.ExpectRequest("CreateConnector");
  const std::string requests =
      "rdma_broker_requests_total{request=\"CreateConnector\",status=\"STATUS_INSUFFICIENT_RESOURCES\"}";
  const std::string page = Page();
  EXPECT_EQ(ValueOf(page, requests), "0");
  EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_refused_total{status=\"STATUS_INSUFFICIENT_RESOURCES\"}"), "0");
  metrics_.CountRequest("CreateConnector", NdkStatus::kInsufficientResources);
  EXPECT_EQ(ValueOf(Page(), requests), "1");
}

TEST_F(MetricsTest, WhatIsCountedApartIsShown) {
  metrics_.CountRequest("Connect", NdkStatus::kPending);
  metrics_.CountRequest("Connect", NdkStatus::kPending);
  metrics_.CountRefusedSession(NdkStatus::kAccessDenied);
  metrics_.CountRefusedCaller(CallerRefusal::kSilent);
  for (int i = 0; i < 2; ++i) metrics_.CountRefusedCaller(CallerRefusal::kNotNamed);
  for (int i = 0; i < 3; ++i) metrics_.CountRefusedCaller(CallerRefusal::kRevoked);
  metrics_.CountDecision(true);
  metrics_.CountDecision(false);
  metrics_.CountDecision(false);
  metrics_.CountCommit(absl::Microseconds(15), true);
  metrics_.CountCommit(absl::Seconds(2), false);
  metrics_.CountLag(absl::Milliseconds(3));
  metrics_.ShowRecovery(absl::Milliseconds(250));
  const std::string page = Page();
  const struct {
    const char* series;
    const char* value;
  } rows[] = {
      {"rdma_broker_requests_total{request=\"Connect\",status=\"STATUS_PENDING\"}", "2"},
      {"rdma_broker_sessions_refused_total{status=\"STATUS_ACCESS_DENIED\"}", "1"},
      {"rdma_broker_callers_refused_total{reason=\"silent\"}", "1"},
      {"rdma_broker_callers_refused_total{reason=\"hand_off\"}", "0"},
      {"rdma_broker_callers_refused_total{reason=\"not_named\"}", "2"},
      {"rdma_broker_callers_refused_total{reason=\"revoked\"}", "3"},
      {"rdma_broker_policy_decisions_total{decision=\"allowed\"}", "1"},
      {"rdma_broker_policy_decisions_total{decision=\"refused\"}", "2"},
      {"rdma_broker_store_commits_total", "1"},
      {"rdma_broker_store_commit_failures_total", "1"},
      {"rdma_broker_store_commit_seconds_count", "2"},
      {"rdma_broker_store_commit_seconds_bucket{le=\"2e-05\"}", "1"},
      {"rdma_broker_loop_lag_seconds_bucket{le=\"0.002\"}", "0"},
      {"rdma_broker_loop_lag_seconds_bucket{le=\"0.005\"}", "1"},
      {"rdma_broker_recovery_seconds", "0.25"},
      {"rdma_broker_scrape_complete", "1"},
  };
  for (const auto& [series, value] : rows) EXPECT_EQ(ValueOf(page, series), value) << series;
}

TEST_F(MetricsTest, TheProcessAndTheStoreAreLookedAt) {
  const std::string page = Page();
  for (const char* series :
       {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
        "process_open_fds", "process_max_fds", "process_start_time_seconds", "rdma_broker_store_free_bytes",
        "rdma_broker_store_size_bytes"}) {
    EXPECT_NE(ValueOf(page, series), "none") << series;
  }
  const double started = std::stod(ValueOf(page, "process_start_time_seconds"));
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(started, now + 1);
  EXPECT_GT(started, now - 3600);
  EXPECT_GE(std::stod(ValueOf(page, "process_open_fds")), 3);
  EXPECT_GT(std::stod(ValueOf(page, "process_resident_memory_bytes")), 1e6);
}

// No thread runs the loop.
TEST_F(MetricsTest, APageComesWithoutTheLoopThreadWhereThatIsStuck) {
  Loop stuck;
  int taken = 0;
  const auto take = [&] {
    ++taken;
    return Snapshot();
  };
  Exposition impatient(stuck, take, metrics_, {}, absl::Milliseconds(20));
  for (int i = 0; i < 3; ++i) {
    const std::string page = impatient.Page();
    EXPECT_EQ(ValueOf(page, "rdma_broker_scrape_complete"), "0");
    EXPECT_EQ(ValueOf(page, "rdma_broker_sessions_opened_total"), "0");
    EXPECT_THAT(page, Not(HasSubstr("rdma_broker_sessions{")));
  }
  // It finds one question, not one for each page.
  EXPECT_TRUE(stuck.RunTurn(Loop::Now()));
  EXPECT_FALSE(stuck.RunTurn(Loop::Now()));
  EXPECT_EQ(taken, 1);
}

TEST_F(MetricsTest, APageThatWaitsEndsWhenItIsClosed) {
  Exposition patient(
      loop_, [] { return Snapshot(); }, metrics_, {}, absl::Hours(1));
  std::string page;
  std::thread scraper([&] { page = patient.Page(); });
  EXPECT_TRUE(loop_.Wait(Loop::Now() + absl::Seconds(30)));
  patient.Close();
  scraper.join();
  EXPECT_EQ(ValueOf(page, "rdma_broker_scrape_complete"), "0");
}

}  // namespace
}  // namespace rdmabroker
