// SPDX-License-Identifier: Apache-2.0

// The broker is killed by SIGKILL before and after each thing that it does which outlives it or that others see, while
// clients listen, connect, accept, transfer and close by the client library: when it comes there for the first, second
// or third time, as a seed decides; at what it does all the time, for the 64th at the latest.
//
//   crash_points_test iwarp|rxe|siw [GTEST_OPTION ...]
//
// RDMA_BROKER_SEED in the environment is the seed to run.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "broker/crash_points/armed_points.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/footprint.h"
#include "tests/needed.h"
#include "tests/random_seed.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/outside.h"
#include "tests/survive/traffic.h"
#include "tests/survive/workload.h"

namespace rdmabroker {
namespace {

using ndkpi::Connection;
using ndkpi::TestListener;
using ndkpi::World;

constexpr char kDaemonWithPoints[] = "broker/rdma-brokerd-with-crash-points";

// Steps that there are only on the kernel's devices.
const std::vector<std::string> kKernelsOnly = {"disconnect", "await_supervisor"};

// Steps that a broker may come to once in its life, and no more.
const std::vector<std::string> kOnce = {"create_file", "grow_file", "move_file", "set_aside"};

// Steps of every turn of its loop, or nearly: the first of them are always those of the first requests.
const std::vector<std::string> kEveryTurn = {"commit",       "commit_the_rest",    "answer", "event", "put_record",
                                             "erase_record", "finish_transaction", "mark"};

bool IsAmong(const StepPoints& step, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return step.before == "before_" + name; });
}

// How often a broker may go on there before it dies.
uint32_t MostPasses(const StepPoints& step) {
  if (IsAmong(step, kOnce)) return 0;
  return IsAmong(step, kEveryTurn) ? 63 : 2;
}

// Set before there is a broker, which is to be in the same network.
const ndkpi::Surroundings* g_on = nullptr;
const TemporaryFolder* g_armed = nullptr;

// Whether addresses are those of TCP, for this test and for the broker alike.
bool IsTcp() { return g_on->adapter == "iwarp"; }

// Few sessions are too many, and what a dead daemon has opened for a client that it has not told is gone before a
// test's patience is over.
std::string Settings() {
  const char* const grace = IsTcp() ? "timeouts.session_grace_ms = 10000\n" : KeptBroker::kGraceInGuests;
  return ndkpi::OwnPorts() + "limits.sessions_per_uid = 12\n" + grace;
}

// The connection manager's ids on the kernel's device, with their addresses; without their numbers and who has made
// them, and without the ports of those that a daemon has for itself.
std::vector<std::string> KernelIds() {
  std::vector<std::string> ids;
  std::FILE* const shown = Needed(::popen("rdma resource show cm_id", "r"), "rdma(8)");
  for (std::array<char, 512> line; std::fgets(line.data(), line.size(), shown) != nullptr;) {
    std::string id = line.data();
    if (id.find(" " + g_on->device + "/") == std::string::npos) continue;
    id = std::regex_replace(id, std::regex(" (cm-idn|pid|comm) [^ ]*|\n"), "");
    ids.push_back(std::regex_replace(id, std::regex("( ps UDP src-addr [^ ]*):[0-9]*"), "$1"));
  }
  EXPECT_EQ(::pclose(shown), 0) << "rdma(8) does not show the ids";
  return ids;
}

// What others see of the broker and its clients: the kernel's ids, or the network's TCP, which is whoever's end it is.
std::vector<std::string> InNetwork() { return IsTcp() ? TcpSockets() : KernelIds(); }

class CrashPointTest : public testing::Test {
 public:
  CrashPointTest(const std::string& point, size_t passes) : armed_(g_armed->path() + "/" + point), passes_(passes) {}
  ~CrashPointTest() override {
    std::error_code gone;
    std::filesystem::remove(armed_, gone);
  }

 protected:
  // At once: the daemon may be there while the file is written.
  void Arm() const {
    const std::string unnamed = armed_ + "+";
    std::ofstream(unnamed) << std::string(passes_, '+');
    std::filesystem::rename(unnamed, armed_);
  }
  bool WasHit() const { return Left() == 0; }
  // How often the daemon has still to come there.
  size_t Left() const {
    std::error_code gone;
    const auto passes = std::filesystem::file_size(armed_, gone);
    return gone ? 0 : passes + 1;
  }

  // Returns when the broker has done what it was asked for before, and serves.
  virtual void Settle() = 0;
  // Of what kinds the objects are that the broker knows, the descriptors that the keeper has and the daemon, and what
  // is in the network. Of the daemon's without sockets, of which each thread that has asked netlink keeps one.
  std::vector<std::string> Holdings() {
    Settle();
    broker_->AwaitKeeper();
    std::vector<std::string> holdings = Descriptors(broker_->Daemon());
    std::erase_if(holdings, [](const std::string& one) { return one.find("socket:") != std::string::npos; });
    for (std::string& one : holdings) one.insert(0, "the daemon's ");
    for (const std::vector<std::string>& more : {Descriptors(broker_->pid()), InNetwork()}) {
      holdings.insert(holdings.end(), more.begin(), more.end());
    }
    for (const std::string& object : broker_->Objects()) holdings.push_back(object.substr(0, object.find(' ')));
    std::sort(holdings.begin(), holdings.end());
    return holdings;
  }
  // Without what the daemon has for a moment: it looks at its devices some times after it has begun, too, by a file and
  // ids that go when it has seen them, in less time than the holdings are read.
  std::vector<std::string> LastingHoldings() {
    constexpr int kTimes = 3;
    std::vector<std::string> held = Holdings();
    int same = 0;
    EXPECT_TRUE(Becomes([&] {
      std::vector<std::string> now = Holdings();
      same = now == held ? same + 1 : 0;
      held = std::move(now);
      return same == kTimes;
    })) << "what the broker holds changes all the time";
    return held;
  }
  void ExpectHoldings(const std::vector<std::string>& before) {
    std::vector<std::string> after;
    EXPECT_TRUE(Becomes([&] { return (after = Holdings()) == before; })) << Difference(before, after);
  }

  const std::string armed_;
  const size_t passes_;
  const std::shared_ptr<KeptBroker> broker_ = NewBroker();

 private:
  static std::shared_ptr<KeptBroker> NewBroker() {
    if (!IsTcp()) {
      EXPECT_TRUE(Becomes([] { return KernelIds().empty(); })) << "the broker before has left ids of the kernel's";
    }
    return std::make_shared<KeptBroker>(Settings(), std::vector<std::string>{kDaemonWithPoints});
  }
};

class UnderWorkTest : public CrashPointTest {
 public:
  using CrashPointTest::CrashPointTest;
  void TestBody() override;

 private:
  void Settle() override { world_.Settle(); }
  // Does everything until the point has been reached: what is done all the time, then a start, then the rest.
  void RunUntilHit() {
    RunAll(false);
    RunOften([this] {
      broker_->KillDaemon();
      workload_.Run(Workload::Activities().front());
    });
    RunAll(true);
  }
  void RunAll(bool special) {
    for (const Workload::Activity& activity : Workload::Activities()) {
      if (activity.special == special) RunOften([&] { workload_.Run(activity); });
    }
  }
  // Once more after each time that it has led there.
  void RunOften(const std::function<void()>& run) {
    for (size_t before = Left() + 1; !WasHit() && !HasFailure() && Left() < before;) {
      before = Left();
      run();
    }
  }

  World world_{*g_on, broker_};
  Workload workload_{world_};
};

void UnderWorkTest::TestBody() {
  const TestListener listener = world_.b().Listening();
  const Connection idle = world_.Establish(world_.a(), world_.b(), listener);
  Traffic traffic(world_);
  const std::vector<std::string> before = LastingHoldings();
  const pid_t former = broker_->Daemon();
  Arm();
  RunUntilHit();
  ASSERT_TRUE(WasHit()) << "the daemon never comes here";
  broker_->AwaitAnother(former);
  traffic.ExpectGoesOn();
  world_.ExpectCarries(idle);
  EXPECT_EQ(idle.active_events.count() + idle.passive_events.count(), 0u);
  const TestListener rival = world_.b().NewListener();
  EXPECT_EQ(world_.b().Listen(rival, listener.address).Status(), NdkStatus::kSharingViolation);
  if (IsTcp()) {
    EXPECT_EQ(BindOutside(listener.address), EADDRINUSE);
  }
  world_.b().Close(rival.object).Wait();
  workload_.Use(listener);
  ExpectHoldings(before);
  world_.Close(idle);
  world_.b().Close(listener.object).Wait();
  if (IsTcp()) {
    EXPECT_EQ(BindOutside(listener.address), 0);
  }
}

// Where the store is put out of the way, and marked as empty, sessions end, connections go on until their clients end
// them, and the broker serves. Nothing of the one before is left then, and addresses can be had again.
class DamagedStoreTest : public CrashPointTest {
 public:
  using CrashPointTest::CrashPointTest;
  void TestBody() override;

 private:
  // A client comes and goes.
  void Settle() override { World(*g_on, broker_).a().Settle(); }
  // Damages the store under a connection, and ends that. Returns where its listener was.
  SocketAddress LoseTheStore();
};

SocketAddress DamagedStoreTest::LoseTheStore() {
  World former(*g_on, broker_);
  const TestListener listener = former.b().Listening();
  const Connection connection = former.Establish(former.a(), former.b(), listener);
  std::promise<void> of_a, of_b;
  connection.active->OnSessionEnd([&](NdkStatus) { of_a.set_value(); });
  connection.passive->OnSessionEnd([&](NdkStatus) { of_b.set_value(); });
  broker_->KillDaemonAnd([this] {
    std::ofstream(broker_->folder() + "/state/last_commit") << "nonsense";
    Arm();
  });
  EXPECT_TRUE(Becomes([this] { return WasHit(); })) << "the daemon never comes here";
  of_a.get_future().wait();
  of_b.get_future().wait();
  former.ExpectCarries(connection);
  EXPECT_EQ(connection.active_events.count() + connection.passive_events.count(), 0u);
  return listener.address;
}

void DamagedStoreTest::TestBody() {
  const std::vector<std::string> before = LastingHoldings(), in_network = InNetwork();
  const SocketAddress address = LoseTheStore();
  std::vector<std::string> left;
  EXPECT_TRUE(Becomes([&] { return (left = InNetwork()) == in_network; })) << Difference(in_network, left);
  {
    World world(*g_on, broker_);
    Workload(world).Use(world.b().ListeningAt(address));
  }
  ExpectHoldings(before);
  if (IsTcp()) {
    EXPECT_EQ(BindOutside(address), 0);
  }
}

// docs/reliability.md counts and lists them.
TEST(CrashPointsPage, ListsEveryStep) {
  std::ifstream file("docs/reliability.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string table;
  for (const StepPoints& step : AllSteps()) {
    table += "| `" + step.before.substr(std::string("before_").size()) + "` | " + step.meaning + " |\n";
  }
  EXPECT_NE(page.find("| --- | --- |\n" + table + "\n"), std::string::npos) << "it is to have this table:\n" << table;
  const size_t steps = AllSteps().size();
  const std::string all = std::to_string(2 * steps), of_iwarp = std::to_string(2 * (steps - kKernelsOnly.size()));
  for (const std::string& text : {"the " + all + " points before and after these " + std::to_string(steps),
                                  "Over user-space iWARP these are " + of_iwarp + " points", "comes to all " + all}) {
    EXPECT_NE(page.find(text), std::string::npos) << "it is to say \"" << text << "\"";
  }
}

// They are no part of what is released.
TEST(CrashPoints, AreInNoReleasedDaemon) {
  const auto has_them = [](const char* path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_FALSE(bytes.empty()) << path;
    return bytes.find(kArmedPoints) != std::string::npos;
  };
  EXPECT_TRUE(has_them(kDaemonWithPoints));
  EXPECT_FALSE(has_them(KeptBroker::kDaemon));
}

template <typename PointTest>
void Register(const std::string& point, const std::string& name, size_t passes) {
  testing::RegisterTest("NothingIsLostWhereTheBrokerDies", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [point, passes]() -> testing::Test* {
                          std::cout << point << ", after " << passes << " times\n";
                          return new PointTest(point, passes);
                        });
}

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: crash_points_test ADAPTER\n");
    return 64;
  }
  const ndkpi::Surroundings on = ndkpi::Prepare(argv[1]);
  const TemporaryFolder armed;
  g_on = &on;
  g_armed = &armed;
  const uint32_t seed = RandomSeed();
  std::cout << "RDMA_BROKER_SEED=" << seed << "\n";
  ::setenv(kArmedPoints, armed.path().c_str(), 1);
  for (const StepPoints& step : AllSteps()) {
    if (IsTcp() && IsAmong(step, kKernelsOnly)) continue;
    for (const std::string& point : {step.before, step.after}) {
      // The name makes each point differ.
      std::minstd_rand random(seed + static_cast<uint32_t>(std::hash<std::string>()(point)));
      if (IsAmong(step, {"set_aside"})) {
        Register<DamagedStoreTest>(point, point, 0);
      } else {
        Register<UnderWorkTest>(point, point, random() % (MostPasses(step) + 1));
      }
      // What follows where the store is put out of the way.
      if (IsAmong(step, {"mark"})) Register<DamagedStoreTest>(point, point + "_of_an_empty_store", 0);
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) { return rdmabroker::Run(argc, argv); }
