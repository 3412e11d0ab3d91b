// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_METRICS_PORT_H_
#define BROKER_CONTROL_METRICS_PORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "broker/control/broker.h"
#include "broker/monitoring/exposition.h"
#include "broker/monitoring/loop_lag.h"
#include "broker/monitoring/metrics.h"
#include "broker/monitoring/scrape_server.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A socket for scrapes on metrics.address, or an error that names that; an empty one where the address is "". Where
// `takes_over` is true, connections wait for this process, and matter more: then the error is logged, and an empty
// socket is what there is.
absl::StatusOr<UniqueFd> ListenForScrapes(const std::string& address, bool takes_over);

// The metrics on their port, for as long as it lives. Loop thread, or before that runs.
class MetricsPort {
 public:
  // Often enough for who mends it and waits.
  static constexpr absl::Duration kRetry = absl::Seconds(10);
  struct Settings {
    std::string address;
    Exposition::Directories directories;
    // Adds to a snapshot what the core does not know. Loop thread.
    std::function<void(Snapshot&)> complete;
    absl::Duration retry = kRetry;
  };

  // `listener` is what ListenForScrapes gave; where it is empty, the address is tried again and again.
  MetricsPort(UniqueFd listener, Settings settings, const Broker& broker, Metrics& metrics, Loop& loop);
  ~MetricsPort();
  MetricsPort(const MetricsPort&) = delete;
  MetricsPort& operator=(const MetricsPort&) = delete;

 private:
  void Serve(UniqueFd listener);
  void TryAgain();

  const Settings settings_;
  const Broker& broker_;
  Metrics& metrics_;
  Loop& loop_;
  TimerId retry_ = TimerId::kNone;
  std::optional<LoopLag> lag_;
  std::unique_ptr<Exposition> exposition_;
  std::unique_ptr<ScrapeServer> server_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_METRICS_PORT_H_
