// SPDX-License-Identifier: Apache-2.0

// One hostile user can neither slow, fill nor end another: each attack of attacks.h on a broker while an honest user
// (honest_user.cc) works with it. All is shown by counts. RDMA_BROKER_ATTACK_SECONDS is how long an attack takes: so
// long as the honest user's requests of that time do, at 20 a second.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/bench/figures.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/scrape.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_certificates.h"
#include "tests/integration/footprint.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"
#include "tests/tenants/attacks.h"

namespace rdmabroker::tenants {
namespace {

constexpr char kIp[] = "127.0.0.1";
constexpr char kOtherIp[] = "127.0.0.2";
constexpr char kHostileHost[] = "127.0.1.1";
constexpr uid_t kHonest = 54321;
constexpr uid_t kHostile = 54322;
constexpr size_t kConnections = 100;
constexpr int kRequestsInARound = 13;  // honest_user.cc
// SessionsThatKeepAll fills this: its objects and answers are 45 MB, and some 30,000 events are the rest.
constexpr uint64_t kKeptBytes = uint64_t{50} << 20;
constexpr char kInspector[] = "spiffe://example.org/inspector";

// How many rounds take a second, or as many seconds as the environment says.
int Rounds() {
  const char* const given = std::getenv("RDMA_BROKER_ATTACK_SECONDS");
  const int seconds = given == nullptr ? 1 : std::atoi(given);
  return 1 + (20 * seconds + kRequestsInARound - 1) / kRequestsInARound;
}

// A port of this address, in the own network, where nobody else takes it.
std::string FreeAddress(const char* ip) {
  KernelAddress address = ToKernel({*IpAddress::Parse(ip), 0});
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), address.get(), address.length), 0);
  EXPECT_EQ(::getsockname(socket.get(), address.get(), &address.length), 0);
  return FromKernel(address).ToString();
}

// The broker's certificates, and those that attackers present.
class Certificates {
 public:
  Certificates() {
    Write("broker", authority_.Sign({.uris = {"spiffe://example.org/broker"}, .addresses = {kIp}}));
    std::ofstream(path("authority.pem")) << authority_.certificate();
    const auto spiffe = [](const std::string& name) { return "spiffe://example.org/" + name; };
    // Those that are not taken name somebody who may call.
    const std::vector<std::string> listed = {kInspector};
    std::vector<std::string> uris;
    for (int i = 0; i < 1000; ++i) uris.push_back(spiffe(absl::StrCat("uri-", i)));
    std::string issuers;
    for (int i = 0; i < 200; ++i) issuers += authority_.certificate();
    Write("listed", authority_.Sign({.uris = {kInspector}}));
    Write("unlisted", authority_.Sign({.uris = {spiffe("unlisted")}}));
    Write("expired", authority_.Sign({.uris = listed, .not_before = -7200, .not_after = -3600}));
    Write("early", authority_.Sign({.uris = listed, .not_before = 3600, .not_after = 7200}));
    Write("of-another-authority", TestAuthority("another").Sign({.uris = listed}));
    Write("long-chain", authority_.Sign({.uris = listed}), issuers);
    Write("many-uris", authority_.Sign({.uris = uris}));
    Write("no-uri", authority_.Sign({}));
    Write("short-key", authority_.Sign({.uris = listed, .strength = TestStrength::kShortKey}));
    const TestPair revoked = authority_.Sign({.uris = listed});
    Write("revoked", revoked);
    std::ofstream(path("revocations.pem")) << authority_.Revoke({.certificates = {revoked.certificate}});
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  void Write(const std::string& name, const TestPair& pair, const std::string& issuers = "") {
    std::ofstream(path(name + ".pem")) << pair.certificate << issuers;
    std::ofstream(path(name + ".key")) << pair.private_key;
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
};

// What runs the daemon as its unit does, and with the memory of a pod, which must not run out at any moment.
std::vector<std::string> Command() {
  std::vector<std::string> command = {"nice", "-n", "-10", RunningBroker::kDaemon};
#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
  command.insert(command.begin(), {"prlimit", absl::StrCat("--data=", 512 << 20)});
#endif
  return command;
}

// What the broker holds for anybody.
using Holdings = std::map<std::string, double>;

// Whether nothing is left that was not there before. Of what was there, something may have gone: what the honest user
// had closed just before.
bool NothingIsLeft(const Footprint& before, const Footprint& after) {
  return std::includes(before.begin(), before.end(), after.begin(), after.end());
}
bool NothingIsLeft(const Holdings& before, const Holdings& after) {
  return std::all_of(after.begin(), after.end(), [&](const auto& held) {
    const auto found = before.find(held.first);
    return found != before.end() && held.second <= found->second;
  });
}

class TenantsTest : public testing::TestWithParam<Attack> {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(EnterOwnNamespaces(), ""); }

  TenantsTest()
      : metrics_(FreeAddress(kIp)),
        tcp_(FreeAddress(kOtherIp)),
        broker_(absl::StrCat(
                    "limits.kept_bytes_per_uid = ", kKeptBytes, "\ncontrol.socket_mode = 0o666\nmetrics.address = \"",
                    metrics_, "\"\ntcp.address = \"", tcp_, "\"\ntcp.certificate = \"",
                    certificates_.path("broker.pem"), "\"\ntcp.private_key = \"", certificates_.path("broker.key"),
                    "\"\ntcp.client_authorities = \"", certificates_.path("authority.pem"), "\"\ntcp.revoked = \"",
                    certificates_.path("revocations.pem"), "\"\ntcp.inspectors = [\"", kInspector, "\"]"),
                Command()),
        honest_({"tests/tenants/honest_user", "--socket", broker_.control_socket(), "--device", "iwarp0", "--address",
                 kIp, "--connections", absl::StrCat(kConnections), "--uid", absl::StrCat(kHonest)}) {}

  void SetUp() override {
    const std::string listens = honest_.ReadLine();
    ASSERT_TRUE(absl::StartsWith(listens, "listens at ")) << listens;
    listener_ = listens.substr(sizeof "listens at " - 1);
    ASSERT_EQ(honest_.ReadLine(), "established");
    MakeRounds(1);
  }
  void TearDown() override {
    EXPECT_EQ(honest_.Finish(), 0) << "the honest user has lost something";
    EXPECT_EQ(broker_.Stop(), 0);
  }

  // The honest user's work. What it says instead of having done it fails the test.
  void MakeRounds(int count) {
    honest_.WriteLine(absl::StrCat("rounds ", count));
    ASSERT_EQ(honest_.ReadLine(), absl::StrCat("rounds ", count));
  }

  // Begins the attack, and waits until it is under way.
  std::unique_ptr<ChildProcess> Begin(const Attack& attack) {
    auto hostile = std::make_unique<ChildProcess>(std::vector<std::string>{
        "tests/tenants/hostile_user", "--attack", attack.name, "--uid", absl::StrCat(kHostile), "--control-socket",
        broker_.control_socket(), "--handoff-socket", broker_.folder() + "/handoff.sock", "--tcp", tcp_, "--listener",
        listener_, "--certificates", certificates_.path(""), "--host", kHostileHost});
    // Some attacks send 64 MiB first, which takes long on a busy machine.
    EXPECT_EQ(hostile->ReadLine(absl::Minutes(5)), "the attack is under way");
    return hostile;
  }
  // Ends it: its counts.
  static std::map<std::string, uint64_t> End(ChildProcess& hostile) {
    std::map<std::string, uint64_t> counts;
    hostile.CloseInput();
    for (std::string line = hostile.ReadLine(); !line.empty(); line = hostile.ReadLine()) {
      const std::vector<std::string> parts = absl::StrSplit(line, ": ");
      uint64_t times = 0;
      EXPECT_TRUE(parts.size() == 2 && absl::SimpleAtoi(parts[1], &times)) << line;
      counts[parts[0]] = times;
    }
    EXPECT_EQ(hostile.Finish(), 0);
    return counts;
  }

  Holdings Held() const {
    Holdings held;
    for (const auto& [series, value] : Scrape(metrics_)) {
      for (const char* const kind :
           {"sessions{", "connectors{", "endpoints{", "listeners", "shared_endpoints", "reservations", "held_bytes"}) {
        if (absl::StartsWith(series, absl::StrCat("rdma_broker_", kind))) held[series] = value;
      }
    }
    return held;
  }
  // What the broker counts while an attack goes on.
  struct Counts {
    // Pieces of clients' work that have waited for others', and those that other users held up for longer than they
    // may. Each user may by two shares of 64 requests in the turn in which the work arrives, and by as many in the
    // next. What comes between the work and its reply, in the rest of that turn, is bounded by UserTurns::kInATurn and
    // TurnBudget.
    double waited = 0;
    double waited_too_long = 0;
    // Connections of callers who sent too much, or left too much unserved or unread.
    double excesses = 0;
    // Sessions whose clients lost their streams. No attacker returns.
    double returns = 0;
    // What is kept for all sessions.
    double kept_bytes = 0;
  };
  Counts Count(int users) const {
    auto series = Scrape(metrics_);
    const auto at = [&series](const std::string& name) {
      EXPECT_TRUE(series.contains(name)) << name;
      return series[name];
    };
    const std::string others = "rdma_broker_requests_of_others_before";
    const double waited = at(others + "_count");
    return {.waited = waited,
            .waited_too_long = waited - at(absl::StrCat(others, "_bucket{le=\"", 4 * 64 * users, "\"}")),
            .excesses = at("rdma_broker_callers_refused_total{reason=\"excess\"}"),
            .returns = at("rdma_broker_sessions_resumed_total"),
            .kept_bytes = at("rdma_broker_kept_bytes")};
  }
  // The sessions of the hostile user.
  int HostileSessions() {
    const auto inspection = v1::Inspection::NewStub(broker_.channel());
    int count = 0;
    v1::ListSessionsRequest request;
    do {
      grpc::ClientContext context;
      v1::ListSessionsReply reply;
      EXPECT_TRUE(inspection->ListSessions(&context, request, &reply).ok());
      for (const v1::SessionInfo& session : reply.sessions()) count += session.uid() == kHostile ? 1 : 0;
      request.mutable_page()->set_after(reply.next());
    } while (request.page().after() != 0);
    return count;
  }

  const Certificates certificates_;
  const std::string metrics_;
  const std::string tcp_;
  RunningBroker broker_;
  ChildProcess honest_;
  std::string listener_;
};

void ExpectCounts(const Attack& attack, const std::map<std::string, uint64_t>& counts) {
  std::string seen;
  for (const auto& [what, times] : counts) absl::StrAppend(&seen, "\n  ", what, ": ", times);
  std::cout << attack.name << seen << std::endl;
  for (const Expected& expected : attack.expected) {
    const auto found = counts.find(expected.what);
    const uint64_t times = found == counts.end() ? 0 : found->second;
    EXPECT_GE(times, expected.least) << expected.what;
    EXPECT_LE(times, expected.most) << expected.what;
  }
}

// What the daemon's memory may have grown by, once the attacker has gone: what the allocator keeps of the 64 MiB that a
// user's connections may hold (UserCosts::Bounds), and as much again of what they hold on the way there.
constexpr int64_t kGrowth = int64_t{128} << 20;

// What the broker keeps of the honest user's answers may grow by so much: 64 of each of three sessions.
constexpr double kHonestAnswers = 64 * 1024;

TEST_P(TenantsTest, HarmsNobodyElse) {
  EXPECT_EQ(HostileSessions(), 0);
  const pid_t daemon = broker_.pid();
  const Holdings held = Held();
  EXPECT_TRUE(held.contains("rdma_broker_held_bytes"));
  const Footprint descriptors = Descriptors(daemon);
  const int64_t memory = ResidentMemory(daemon);
  const double waited = Count(GetParam().users).waited;
  MakeRounds(1);
  const Counts before = Count(GetParam().users);
  EXPECT_GE(before.waited - waited, kRequestsInARound) << "the honest user's work is not counted";
  const auto hostile = Begin(GetParam());
  MakeRounds(Rounds());
  const auto counts = End(*hostile);
  ExpectCounts(GetParam(), counts);
  const Counts after = Count(GetParam().users);
  EXPECT_EQ(after.waited_too_long, before.waited_too_long);
  EXPECT_EQ(after.returns, before.returns);
  if (GetParam().excessive) {
    EXPECT_GT(after.excesses, before.excesses);
  }
  EXPECT_TRUE(Becomes([&] { return HostileSessions() == 0; }));
  EXPECT_TRUE(Becomes([&] { return NothingIsLeft(held, Held()); }))
      << testing::PrintToString(held) << ", then " << testing::PrintToString(Held());
  EXPECT_TRUE(Becomes([&] { return Count(1).kept_bytes <= before.kept_bytes + kHonestAnswers; }))
      << before.kept_bytes << " bytes, then " << Count(1).kept_bytes;
  EXPECT_TRUE(Becomes([&] { return NothingIsLeft(descriptors, Descriptors(daemon)); }))
      << Difference(descriptors, Descriptors(daemon));
  EXPECT_LE(ResidentMemory(daemon) - memory, kGrowth);
  MakeRounds(1);
}

// Of honest requests, one after the other.
struct Latency {
  double p50 = 0;
  double p99 = 0;
};

// The target tenants_bench alone runs it. It decides nothing.
class TenantsBench : public TenantsTest {
 protected:
  Latency Measure() {
    constexpr int kMeasured = 2000;
    honest_.WriteLine(absl::StrCat("latency ", kMeasured));
    const std::vector<std::string> words = absl::StrSplit(honest_.ReadLine(), ' ');
    Latency latency;
    EXPECT_TRUE(words.size() == 3 && absl::SimpleAtod(words[1], &latency.p50) &&
                absl::SimpleAtod(words[2], &latency.p99));
    return latency;
  }
};

TEST_P(TenantsBench, Latency) {
  const Latency quiet = Measure();
  const auto hostile = Begin(GetParam());
  const Latency attacked = Measure();
  End(*hostile);
  std::cout << "quiet " << quiet.p50 << " and " << quiet.p99 << " ns, attacked " << attacked.p50 << " and "
            << attacked.p99 << " ns" << std::endl;
  bench::PrintRatio(absl::StrCat("p50 of others' requests, ", GetParam().name), attacked.p50 / quiet.p50, "goal 3");
  bench::PrintRatio(absl::StrCat("p99 of others' requests, ", GetParam().name), attacked.p99 / quiet.p99, "goal 3");
}

INSTANTIATE_TEST_SUITE_P(Attacks, TenantsBench, testing::ValuesIn(Attacks()),
                         [](const auto& row) { return std::string(row.param.name); });

INSTANTIATE_TEST_SUITE_P(Attacks, TenantsTest, testing::ValuesIn(Attacks()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace rdmabroker::tenants
