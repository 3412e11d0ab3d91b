// SPDX-License-Identifier: Apache-2.0

// The bounds that no key sets, as docs/operating.md has them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "broker/control/configuration.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/handoff_socket.h"
#include "broker/control/health_service.h"
#include "broker/control/open_calls.h"
#include "broker/control/policy_configuration.h"
#include "broker/control/row_feed.h"
#include "broker/control/tcp_port.h"
#include "broker/control/watch_service.h"
#include "broker/fabric/iwarp/options.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/monitoring/exposition.h"
#include "broker/monitoring/http_request.h"
#include "broker/monitoring/scrape_server.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/work_queue.h"

namespace rdmabroker {
namespace {

using testing::StartsWith;

// The first two cells of each row of the table below the heading whose first column is `title`.
std::map<std::string, std::string> RowsOf(const std::string& heading, const std::string& title) {
  std::ifstream file("docs/operating.md");
  EXPECT_TRUE(file.is_open());
  std::map<std::string, std::string> rows;
  bool below = false;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "#")) below = line == heading;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (below && cells[0] == "| " + title) {
      in_table = true;
    } else if (!below || !absl::StartsWith(line, "| ")) {
      in_table = false;
    } else if (in_table && cells.size() > 1 && cells[0] != "| ---") {
      rows[cells[0].substr(2)] = cells[1];
    }
  }
  return rows;
}

std::string Documented(const CallBounds& bounds) {
  return absl::StrCat(bounds.of_caller, " of a user, ", bounds.of_users, " of users, ", bounds.in_all,
                      " with administrators'");
}

TEST(DocumentedBounds, AreTheCodes) {
  const HandoffSocket::Settings handoff;
  const IwarpOptions iwarp;
  EXPECT_EQ(RdmaCmOptions().handshakes.per_listener, iwarp.handshakes.per_listener);
  const WorkShares& waits = kWorkShares[static_cast<size_t>(PeerWait::kTimed)];
  const std::map<std::string, std::string> bounds = {
      {"connections to the TCP port", absl::StrCat(TcpBounds().connections)},
      {"watches", Documented(WatchService::kBounds)},
      {"watches of health", Documented(HealthService::kBounds)},
      {"changed rows of a kind that a watch has not read", absl::StrCat(RowFeed::kMostChanges)},
      {"reloads that wait for one that is under way", absl::StrCat(ConfigurationReload::kMostWaiting)},
      {"a configuration's size", absl::StrCat(kMaxConfigurationBytes >> 20, " MiB")},
      {"rules of the policy", absl::StrCat(kMostPolicyRules)},
      {"entries of a list of a rule", absl::StrCat(kMostPolicyEntries)},
      {"clients that fetch a transport",
       absl::StrCat(handoff.fetchers_per_uid, " of a user, ", handoff.fetchers, " in all")},
      {"handshakes of user-space iWARP, and of the kernel's devices, towards one listener",
       absl::StrCat(iwarp.handshakes.per_listener, " of each")},
      {"peers that have connected to user-space iWARP and asked for nothing yet",
       absl::StrCat(iwarp.half_open_per_listener, " of a listener, ", iwarp.half_open, " in all")},
      {"Connects that wait in the kernel for a peer, over its iWARP devices",
       absl::StrCat(waits.all, " in all, ", waits.of_user, " of a user, ", waits.of_session, " of a session, ",
                    waits.of_peer, " towards a peer, ", waits.of_lane, " of a session towards a peer")},
      {"requests of peers on the kernel's devices that nobody took and that are being let go of",
       absl::StrCat(UnwantedIds::kMany)},
  };
  EXPECT_EQ(RowsOf("### Limits that no key sets", "limit"), bounds);
}

TEST(DocumentedBounds, OfAScrapeAreTheCodes) {
  auto rows = RowsOf("## Metrics", "bound");
  const auto in_seconds = [](absl::Duration time) { return absl::StrCat(absl::ToInt64Seconds(time), " s"); };
  EXPECT_THAT(rows["connections"], StartsWith(absl::StrCat(ScrapeServer::kMostConnections, ";")));
  EXPECT_THAT(rows["a scraper's time"], StartsWith(in_seconds(ScrapeServer::kPatience)));
  EXPECT_THAT(rows["a request"], StartsWith(absl::StrCat(kMostRequestBytes >> 10, " KiB")));
  EXPECT_THAT(rows["the wait for the loop"], StartsWith(in_seconds(Exposition::kPatience)));
  EXPECT_THAT(rows["series"], StartsWith("of the first 1,000 sessions"));
  EXPECT_EQ(kSessionsShown, 1000u);
}

}  // namespace
}  // namespace rdmabroker
