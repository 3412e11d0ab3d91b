// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_EXPOSITION_H_
#define BROKER_MONITORING_EXPOSITION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "broker/monitoring/metrics.h"
#include "broker/monitoring/port_counters.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/executor.h"

namespace rdmabroker {

// Makes the page that a scrape gets, on whatever thread that is: what is counted as it is, and of the core's records a
// snapshot that the loop thread takes. Where that does not come in time, the page is there without it and says so.
class Exposition {
 public:
  // Where it looks besides.
  struct Directories {
    std::string store;                        // "" for none.
    std::string devices = kDevicesDirectory;  // The kernel's; of PortFamilies.
  };

  // How long a page waits for the loop thread. Half of what Prometheus' default of 10 s for a scrape leaves is plenty.
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  // Pages that are asked for faster are the same: the loop thread takes so many snapshots a second at most.
  static constexpr absl::Duration kFreshness = absl::Milliseconds(50);

  // `take` is called on the loop thread. `metrics` outlives it.
  Exposition(Executor& executor, std::function<Snapshot()> take, const Metrics& metrics, Directories directories,
             absl::Duration patience = kPatience);
  ~Exposition();
  Exposition(const Exposition&) = delete;
  Exposition& operator=(const Exposition&) = delete;

  // One thread.
  std::string Page();
  // Any thread. A page that waits for the loop thread, and later ones, are made without it.
  void Close();

 private:
  struct Question;

  std::shared_ptr<const Snapshot> AskLoop();

  Executor& executor_;
  const std::function<Snapshot()> take_;
  const Metrics& metrics_;
  const Directories directories_;
  const absl::Duration patience_;
  const std::shared_ptr<Question> question_;
};

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_EXPOSITION_H_
