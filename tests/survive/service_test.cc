// SPDX-License-Identifier: Apache-2.0

// What tests/vm/service shows of systemd's service, of rdma-brokerd under its keeper and over user-space iWARP: it is
// killed, asked to make way, replaced by a newer program and by one that is too old, under 1,000 connections of which
// 16 carry messages all the time, while others connect. Nobody loses anything.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dataplane/ndk/socket_address.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/bench/figures.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/footprint.h"
#include "tests/integration/own_namespaces.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/outside.h"

namespace rdmabroker {
namespace {

constexpr char kIp[] = "127.0.0.1";
constexpr int kConnections = 1000;
constexpr int kBusy = 16;
constexpr int kKnockingAtOnce = 2;

// How often each of the replacements below is made; the environment's RDMA_BROKER_TIMES says more.
int Times() {
  const char* const given = std::getenv("RDMA_BROKER_TIMES");
  return given == nullptr ? 2 : std::atoi(given);
}

// Over user-space iWARP the bytes of a handshake under way go with the process. So these many requests to connect may
// have to be made again, with CONNECTION_ABORTED, where it had no time to end them.
constexpr int kAbortedByADeath = kKnockingAtOnce;
constexpr int kAbortedByAPlannedRestart = 0;

// The program that the keeper starts, and what settings it has in its environment, as a package installs them.
class Installation {
 public:
  Installation() { Install(KeptBroker::kDaemon); }

  // So that the name never leads to half a program.
  void Install(const std::string& program) const {
    const std::string path = folder_.path() + "/rdma-brokerd";
    std::filesystem::copy_file(program, path + ".new");
    std::filesystem::rename(path + ".new", path);
  }
  // With records of the next version.
  void InstallNewer() {
    std::ofstream(Settings()) << "export RDMA_BROKERD_FORMAT_VERSION=" << ++version_ << "\n";
    InstallNewest();
  }
  // The one that InstallNewer has installed.
  void InstallNewest() const { Install("broker/rdma-brokerd-of-another-day"); }

  // Of the records.
  int version() const { return version_; }
  std::vector<std::string> Command() const {
    return {"sh", "-c", "[ ! -e \"$0/settings\" ] || . \"$0/settings\"; exec \"$0/rdma-brokerd\" \"$@\"",
            folder_.path()};
  }

 private:
  std::string Settings() const { return folder_.path() + "/settings"; }

  TemporaryFolder folder_;
  int version_ = 1000;  // Above the one that rdma-brokerd writes.
};

// A server that has nothing to do with the broker, which tries to take addresses, one after the other, for as long as
// this object lives. It fails the test where it gets one.
class Outsider {
 public:
  explicit Outsider(std::vector<SocketAddress> addresses)
      : addresses_(std::move(addresses)), thread_([this] { Run(); }) {}
  ~Outsider() {
    stopping_ = true;
    thread_.join();
  }
  Outsider(const Outsider&) = delete;
  Outsider& operator=(const Outsider&) = delete;

 private:
  // Between two tries, so that the machine has time for others, too.
  static constexpr absl::Duration kPause = absl::Milliseconds(1);

  void Run() {
    for (size_t i = 0; !stopping_; i = (i + 1) % addresses_.size()) {
      ASSERT_EQ(BindOutside(addresses_[i]), EADDRINUSE) << addresses_[i].ToString() << " was free";
      absl::SleepFor(kPause);
    }
  }

  const std::vector<SocketAddress> addresses_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

std::string Indented(const std::string& text) {
  return absl::StrCat("  ", absl::StrReplaceAll(text, {{"\n", "\n  "}}));
}

class ServiceTest : public testing::Test {
 protected:
  struct Replacement {
    const char* name;
    void (ServiceTest::*begin)(int time);
    int aborted;  // Requests to connect, at most.
  };
  static const std::vector<Replacement>& Replacements();

  static void SetUpTestSuite() { ASSERT_EQ(EnterOwnNamespaces(), ""); }

  void TearDown() override {
    if (HasFailure()) std::cout << "The keeper and the daemons said:\n" << broker_.Log();
  }

  void Kill(int) { KeptBroker::Kill(broker_.Daemon()); }
  void SignalKeeper() { ASSERT_EQ(::kill(broker_.pid(), SIGUSR2), 0); }
  // As an operator does by the keeper, and as an administrator asks for it.
  void Restart(int time) {
    if (time % 2 == 0) return SignalKeeper();
    const std::vector<std::string> command = {"client/ctl/rdma-brokerctl", "--socket", broker_.control_socket(),
                                              "restart"};
    const Ending ending = RunToEnd(command, broker_.folder() + "/errors");
    EXPECT_EQ(ending.status, 0) << ending.error;
  }
  void Upgrade(int) {
    installation_.InstallNewer();
    SignalKeeper();
  }

  // A process ends and another one serves, to which all return.
  void Replace(const Replacement& replacement, int time) {
    SCOPED_TRACE(replacement.name);
    const pid_t former = broker_.Daemon();
    const absl::Time begin = absl::Now();
    (this->*replacement.begin)(time);
    AwaitAnotherReady(former);
    const absl::Duration took = absl::Now() - begin - broker_.LastWait();
    std::cout << "  after " << replacement.name << ": ready within " << absl::ToInt64Milliseconds(took) << " ms\n";
    if (replacement.begin == &ServiceTest::Kill) longest_recovery_ = std::max(longest_recovery_, took);
    AwaitClients();
    ExpectNoneWasRefused(replacement.aborted);
  }
  void AwaitAnotherReady(pid_t former) {
    EXPECT_TRUE(Becomes([&] { return broker_.Daemon() != former && broker_.IsReady(); }));
  }

  // An older program refuses what a newer one has written, says so, and costs nobody anything.
  void ExpectRefusesADowngrade() {
    SCOPED_TRACE("a downgrade");
    const pid_t former = broker_.Daemon();
    installation_.Install(KeptBroker::kDaemon);
    SignalKeeper();
    const std::string refusal = absl::StrCat("has version ", installation_.version(), " of the store's format");
    EXPECT_TRUE(Becomes([&] { return absl::StrContains(broker_.Log(), refusal); }));
    ExpectCarriesOn();
    installation_.InstallNewest();
    AwaitAnotherReady(former);
    AwaitClients();
    ExpectNoneWasRefused(kAbortedByAPlannedRestart);
  }
  // Each busy connection, for which nobody is needed.
  void ExpectCarriesOn() {
    busy_->Signal(SIGUSR1);
    EXPECT_EQ(busy_->ReadLine(), "carried on");
  }

  // Both sessions of each program are there, and both ends of each connection; and others connect.
  void AwaitClients() {
    EXPECT_TRUE(Becomes([this] {
      const std::vector<std::string> objects = broker_.Objects();
      return 4 == std::count_if(objects.begin(), objects.end(), [](const std::string& object) {
               return absl::StrContains(object, "SESSION_STATE_OPEN");
             });
    })) << "somebody does not return";
    const v1::DeviceActivity begin = Activity();
    EXPECT_GE(begin.active_connections(), 2u * kConnections);
    EXPECT_TRUE(Becomes([&] { return Activity().connects() > begin.connects(); })) << "nobody connects";
  }
  // Of the endpoints that there are, as many as a page has at most, which is all of the crowd's but a few.
  std::vector<SocketAddress> Addresses() const {
    grpc::ClientContext context;
    v1::ListEndpointsRequest request;
    request.mutable_page()->set_limit(1000);
    v1::ListEndpointsReply reply;
    const grpc::Status status = v1::Inspection::NewStub(broker_.channel())->ListEndpoints(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<SocketAddress> addresses;
    for (const v1::EndpointInfo& endpoint : reply.endpoints()) {
      addresses.push_back({*IpAddress::Parse(kIp), static_cast<uint16_t>(endpoint.address().port())});
    }
    EXPECT_FALSE(addresses.empty());
    return addresses;
  }
  v1::DeviceActivity Activity() const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kTestPatience));
    v1::ListAdaptersReply reply;
    const grpc::Status status = v1::Inspection::NewStub(broker_.channel())->ListAdapters(&context, {}, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.activities_size() > 0 ? reply.activities(0) : v1::DeviceActivity();
  }
  void AwaitNothing() {
    EXPECT_TRUE(Becomes([this] { return broker_.Objects().empty(); }))
        << "the broker does not serve, or holds something";
  }

  std::vector<std::string> Client(const char* program, std::vector<std::string> options) const {
    options.insert(options.begin(), {absl::StrCat("tests/service/", program), "--socket", broker_.control_socket(),
                                     "--device", "iwarp0", "--address", kIp});
    return options;
  }

  // Asks a client to end: what it has said, which fails the test where it has missed something.
  static std::string End(ChildProcess& client) {
    client.Signal(SIGTERM);
    std::string said = client.ReadAll();
    std::cout << Indented(said) << "\n";
    EXPECT_EQ(client.End(), 0);
    return said;
  }
  // What the requests to connect have come to since it was asked for the last time.
  void ExpectNoneWasRefused(int aborted_at_most) {
    knocking_->Signal(SIGUSR1);
    std::map<std::string, int> counts;
    for (std::string line = knocking_->ReadLine(); !line.empty(); line = knocking_->ReadLine()) {
      std::cout << "    " << line << "\n";
      if (absl::StartsWith(line, "the longest wait")) break;
      std::istringstream words(line);
      int count = 0;
      std::string status;
      if (words >> count >> status) counts[status] = count;
    }
    EXPECT_LE(counts["STATUS_CONNECTION_ABORTED"], aborted_at_most) << "requests that were not under way";
    EXPECT_GT(counts["STATUS_SUCCESS"], 0);
    EXPECT_EQ(counts.size(), 2u) << "requests to connect have failed otherwise";
  }

  // It may have had more: one that has just started has connections yet on which nobody waits any more.
  static void ExpectNoMore(const char* whose, const Footprint& before, pid_t pid) {
    Footprint after;
    EXPECT_TRUE(Becomes([&] {
      after = Descriptors(pid);
      return std::includes(before.begin(), before.end(), after.begin(), after.end());
    })) << whose
        << " descriptors:\n"
        << Difference(before, after);
  }

  const TemporaryFolder logs_;
  Installation installation_;
  KeptBroker broker_{"", installation_.Command(), logs_.path() + "/log"};
  std::optional<ChildProcess> busy_;
  std::optional<ChildProcess> knocking_;
  absl::Duration longest_recovery_;
};

const std::vector<ServiceTest::Replacement>& ServiceTest::Replacements() {
  static const auto* const kReplacements = new std::vector<Replacement>{
      {"SIGKILL", &ServiceTest::Kill, kAbortedByADeath},
      {"a restart", &ServiceTest::Restart, kAbortedByAPlannedRestart},
      {"an upgrade", &ServiceTest::Upgrade, kAbortedByAPlannedRestart},
  };
  return *kReplacements;
}

TEST_F(ServiceTest, AThousandConnectionsMissNothingOfDeathsRestartsAndUpgrades) {
  // One that has taken over has what the last one will have.
  const pid_t first = broker_.Daemon();
  broker_.KillDaemon();
  AwaitAnotherReady(first);
  AwaitNothing();
  const Footprint keepers = Descriptors(broker_.pid()), daemons = Descriptors(broker_.Daemon());
  busy_.emplace(Client("busy_client", {"--connections", absl::StrCat(kConnections), "--busy", absl::StrCat(kBusy)}));
  ASSERT_EQ(busy_->ReadLine(), "established");
  const std::vector<SocketAddress> addresses = Addresses();
  knocking_.emplace(Client("knocking_client", {"--at-once", absl::StrCat(kKnockingAtOnce)}));
  AwaitClients();
  ExpectNoneWasRefused(0);
  {
    const Outsider outsider(addresses);
    for (int time = 0; time < Times(); ++time) {
      for (const Replacement& replacement : Replacements()) {
        if (!HasFailure()) Replace(replacement, time);
      }
    }
    if (!HasFailure()) ExpectRefusesADowngrade();
  }
  End(*knocking_);
  EXPECT_TRUE(absl::StrContains(End(*busy_), " 0 bad sums, 0 failed requests, 0 disconnects;"));
  AwaitNothing();
  ExpectNoMore("the keeper's", keepers, broker_.pid());
  ExpectNoMore("the daemon's", daemons, broker_.Daemon());
  bench::PrintRatio("service, recovery of 1,000 connections under the keeper / 1 s",
                    absl::ToDoubleSeconds(longest_recovery_), "goal: at most 1");
}

}  // namespace
}  // namespace rdmabroker
