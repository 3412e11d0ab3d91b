// SPDX-License-Identifier: Apache-2.0

// The broker is killed by SIGKILL before and after each thing that it does which outlives it or that others see, while
// clients listen, connect, accept, transfer and close by the client library.
//
//   crash_points_test iwarp|rxe [GTEST_OPTION ...]

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "broker/crash_points/armed_points.h"
#include "dataplane/ndk/status.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/footprint.h"
#include "tests/survive/kept_broker.h"
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

// Set before there is a broker, which is to be in the same network.
const ndkpi::Surroundings* g_on = nullptr;
const TemporaryFolder* g_armed = nullptr;

// Few sessions are too many, and what a dead daemon has opened for a client that it has not told is gone long before a
// test's patience is over.
std::string Settings() {
  return ndkpi::OwnPorts() + "limits.sessions_per_uid = 12\ntimeouts.session_grace_ms = 10000\n";
}

class CrashPointTest : public testing::Test {
 public:
  explicit CrashPointTest(const std::string& point) : armed_(g_armed->path() + "/" + point) {}
  ~CrashPointTest() override {
    std::error_code gone;
    std::filesystem::remove(armed_, gone);
  }

 protected:
  void Arm() { std::ofstream(armed_).put('\n'); }
  bool WasHit() const { return !std::filesystem::exists(armed_); }

  const std::string armed_;
  const std::shared_ptr<KeptBroker> broker_ =
      std::make_shared<KeptBroker>(Settings(), std::vector<std::string>{kDaemonWithPoints});
};

class UnderWorkTest : public CrashPointTest {
 public:
  using CrashPointTest::CrashPointTest;
  void TestBody() override;

 private:
  // Of what kinds the objects are that the broker knows, and the descriptors that the keeper has.
  std::vector<std::string> Holdings() {
    world_.Settle();
    std::vector<std::string> holdings = Descriptors(broker_->pid());
    for (const std::string& object : broker_->Objects()) holdings.push_back(object.substr(0, object.find(' ')));
    return holdings;
  }

  // Does everything until the point has been reached: what is done all the time, then a start, then the rest.
  void RunUntilHit() {
    RunAll(false);
    if (WasHit() || HasFailure()) return;
    broker_->KillDaemon();
    workload_.Run(Workload::Activities().front());
    RunAll(true);
  }
  void RunAll(bool special) {
    for (const Workload::Activity& activity : Workload::Activities()) {
      if (WasHit() || HasFailure()) return;
      if (activity.special == special) workload_.Run(activity);
    }
  }

  World world_{*g_on, broker_};
  Workload workload_{world_};
};

void UnderWorkTest::TestBody() {
  const TestListener listener = world_.b().Listening();
  const Connection idle = world_.Establish(world_.a(), world_.b(), listener);
  Traffic traffic(world_);
  const std::vector<std::string> before = Holdings();
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
  world_.b().Close(rival.object).Wait();
  workload_.Use(listener);
  std::vector<std::string> after;
  EXPECT_TRUE(Becomes([&] { return (after = Holdings()) == before; })) << testing::PrintToString(before) << " before\n"
                                                                       << testing::PrintToString(after) << " after";
  world_.Close(idle);
}

// Where the store is put out of the way, sessions end, connections go on, and the broker serves.
class DamagedStoreTest : public CrashPointTest {
 public:
  using CrashPointTest::CrashPointTest;
  void TestBody() override;
};

void DamagedStoreTest::TestBody() {
  {
    World former(*g_on, broker_);
    const Connection connection = former.Establish();
    std::promise<void> of_a, of_b;
    connection.active->OnSessionEnd([&](NdkStatus) { of_a.set_value(); });
    connection.passive->OnSessionEnd([&](NdkStatus) { of_b.set_value(); });
    Arm();
    broker_->KillDaemonAnd([this] { std::ofstream(broker_->folder() + "/state/last_commit") << "nonsense"; });
    EXPECT_TRUE(Becomes([this] { return WasHit(); })) << "the daemon never comes here";
    of_a.get_future().wait();
    of_b.get_future().wait();
    former.ExpectCarries(connection);
    EXPECT_EQ(connection.active_events.count() + connection.passive_events.count(), 0u);
  }
  World world(*g_on, broker_);
  Workload(world).Use(world.b().Listening());
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
  EXPECT_NE(page.find("the " + std::to_string(2 * steps) + " points before and after these " + std::to_string(steps)),
            std::string::npos);
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

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: crash_points_test ADAPTER\n");
    return 64;
  }
  static const ndkpi::Surroundings on = ndkpi::Prepare(argv[1]);
  static const TemporaryFolder armed;
  g_on = &on;
  g_armed = &armed;
  ::setenv(kArmedPoints, armed.path().c_str(), 1);
  for (const StepPoints& step : AllSteps()) {
    const bool kernels = std::any_of(kKernelsOnly.begin(), kKernelsOnly.end(),
                                     [&](const std::string& name) { return step.before == "before_" + name; });
    if (kernels && on.adapter == "iwarp") continue;
    for (const std::string& point : {step.before, step.after}) {
      const bool damaged = step.before == "before_set_aside";
      testing::RegisterTest("NothingIsLostWhereTheBrokerDies", point.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [point, damaged]() -> testing::Test* {
                              if (damaged) return new DamagedStoreTest(point);
                              return new UnderWorkTest(point);
                            });
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) { return rdmabroker::Run(argc, argv); }
