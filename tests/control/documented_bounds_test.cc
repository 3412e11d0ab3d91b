// SPDX-License-Identifier: Apache-2.0

// The bounds that no key sets, as the pages have them.

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
#include "broker/control/accepting_thread.h"
#include "broker/control/acceptor.h"
#include "broker/control/client_processes.h"
#include "broker/control/configuration.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/control_server.h"
#include "broker/control/control_socket.h"
#include "broker/control/handoff_socket.h"
#include "broker/control/health_service.h"
#include "broker/control/open_calls.h"
#include "broker/control/policy_configuration.h"
#include "broker/control/row_feed.h"
#include "broker/control/served_connection.h"
#include "broker/control/tcp_port.h"
#include "broker/control/tls.h"
#include "broker/control/user_costs.h"
#include "broker/control/user_turns.h"
#include "broker/control/watch_service.h"
#include "broker/core/limits.h"
#include "broker/fabric/iwarp/options.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/monitoring/exposition.h"
#include "broker/monitoring/http_request.h"
#include "broker/monitoring/scrape_server.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/work_queue.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/http2.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {
namespace {

using testing::StartsWith;

// The first two cells of each row of the table below the heading whose first column is `title`.
std::map<std::string, std::string> RowsOf(const std::string& page, const std::string& heading,
                                          const std::string& title) {
  std::ifstream file(page);
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
  EXPECT_EQ(RowsOf("docs/limits.md", "## Limits that no key sets", "limit"), bounds);
}

std::string Documented(const rpc::TokenRate& rate) {
  return absl::StrCat(rate.burst, " at once, ", rate.a_second, " a second");
}

TEST(DocumentedBounds, OfTheFrontDoorAreTheCodes) {
  const rpc::FrameBudget::Rates frames;
  const rpc::ServerConnection::Limits connection;
  const UserCosts::Bounds costs;
  const auto in_seconds = [](absl::Duration time) { return absl::StrCat(absl::ToInt64Seconds(time), " s"); };
  const std::map<std::string, std::string> bounds = {
      {"connections that a user opens", Documented(ControlSocket::kConnectRate)},
      {"connections that a user opens to `handoff.sock`", Documented(HandoffSocket::kConnectRate)},
      {"connections that the loop takes in a turn", absl::StrCat(AcceptingThread::kMostUnderWay, " of a socket")},
      {"connections to `handoff.sock` that the loop accepts in a turn", absl::StrCat(Acceptor::kAcceptsAtATime)},
      {"calls at a time", absl::StrCat("of a connection to the control socket `limits.answers_kept` and ",
                                       ControlServer::kOtherCalls, ", to the TCP port ", connection.calls)},
      {"calls that begin", Documented(frames.calls)},
      {"calls that are cancelled", Documented(frames.resets)},
      {"[small frames](grpc.md#how-many-frames-are-a-flood)", Documented(frames.small)},
      {"a request", absl::StrCat(connection.request, " octets")},
      {"the headers of a call", absl::StrCat(connection.header_block, " octets")},
      {"unserved requests and unread replies, those in the kernel's buffers included, and 16 KiB for each connection "
       "and 1 KiB for each call",
       absl::StrCat(costs.of_payer >> 20, " MiB of a user, ", costs.in_all >> 20, " MiB in all")},
      {"the loop's time",
       absl::StrCat(UserTurns::kShare, " requests of a user in a turn, ", UserTurns::kInATurn, " in all")},
      {"reading at a time",
       absl::StrCat(TlsConnection::kLongestRecord, " octets, ", rpc::Http2::kFramesAtATime, " frames, and ",
                    TlsConnection::kRecordsAtATime, " records of TLS of a connection")},
      {"messages of TLS, such as KeyUpdate, without data between them", absl::StrCat(TlsConnection::kMostMessages)},
      {"replies that wait for a client which reads nothing", in_seconds(ServedConnection::kUnreadPatience)},
      {"time to acknowledge HTTP/2's settings", in_seconds(connection.patience)},
      {"a TLS handshake and the first call that is admitted", in_seconds(TcpBounds().patience)},
      {"a connection over TCP", in_seconds(TcpBounds().longest)},
  };
  EXPECT_EQ(RowsOf("docs/limits.md", "## What clients cost the front door", "limit"), bounds);
}

TEST(DocumentedBounds, OfATurnAreTheCodes) {
  const TurnBudget turn;
  const std::map<std::string, std::string> bounds = {
      {"objects of ended sessions that are closed", absl::StrCat(turn.closes, " |")},
      {"acknowledged events, and events and answers of ended sessions, that are dropped",
       absl::StrCat(turn.drops, " |")},
      {"sessions that end with their processes", absl::StrCat(ClientProcesses::kInATurn, " |")},
      {"sessions that end with their grace period", absl::StrCat(turn.ends, " |")},
      {"connectors whose time is over, of each user as many", absl::StrCat(turn.timeouts, " |")},
  };
  EXPECT_EQ(RowsOf("docs/limits.md", "## What clients cost the front door", "work"), bounds);
}

TEST(DocumentedBounds, OfAScrapeAreTheCodes) {
  auto rows = RowsOf("docs/operating.md", "## Metrics", "bound");
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
