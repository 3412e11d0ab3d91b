// SPDX-License-Identifier: Apache-2.0

// Random work of consumers while the broker is killed, and restarted, all the time: nothing is lost, and nothing grows.
// Over user-space iWARP, by the client library.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"
#include "tests/integration/footprint.h"
#include "tests/random_seed.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/traffic.h"
#include "tests/survive/workload.h"

namespace rdmabroker {
namespace {

using Clock = std::chrono::steady_clock;
using ndkpi::World;

// What one process has; and what the test's own has must not grow by more.
struct Sample {
  pid_t pid = -1;
  Footprint descriptors;
  int64_t memory = 0;
};

Sample SampleOf(pid_t pid) { return {pid, Descriptors(pid), ResidentMemory(pid)}; }

// What the dead daemon has opened for a client that it has not told is gone long before a test's patience is over.
constexpr char kGrace[] = "timeouts.session_grace_ms = 10000\n";

int Setting(const char* name, int otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoi(given);
}

// What allocators keep of freed memory, which settles in the first rounds: of a process that has just taken over; and
// of one that has done half as much before, which is 22 bytes an activity in a nightly block, less than what it makes.
constexpr int64_t kSlack = 8 << 20;
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr int64_t kSlackOfTheLiving = 64 << 20;  // It is kept from whoever still uses it.
#else
constexpr int64_t kSlackOfTheLiving = 512 << 10;
#endif
// It lives through all deaths, and allocates nothing that it keeps.
constexpr int64_t kSlackOfTheKeeper = std::min(kSlack, kSlackOfTheLiving);

int SoakSeconds() { return Setting("RDMA_BROKER_SOAK_SECONDS", 20); }

// With a daemon that lives, after the seconds with one that dies. An allocator's memory grows for some 2,000
// activities, and no more.
int LivingRounds() {
  constexpr int kAMinute = 8;
  return std::max(kAMinute, kAMinute * SoakSeconds() / 60);
}

const ndkpi::Surroundings& On() {
  static const auto* const kOn = new ndkpi::Surroundings(ndkpi::Prepare("iwarp"));
  return *kOn;
}

// Kills the daemon, or has it make way for another, as long as this object lives.
class Reaper {
 public:
  Reaper(KeptBroker& broker, uint32_t seed) : broker_(broker), random_(seed), thread_([this] { Run(); }) {}
  ~Reaper() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // So far.
  int deaths() const { return deaths_; }
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

 private:
  // The broker is up for so long at most; often it dies while it takes over.
  static constexpr int kLongestLife = 1500;
  static constexpr int kOnePlannedIn = 4;
  // After more of them in a row the keeper would wait for seconds.
  static constexpr int kMostKills = 3;

  void Run() {
    // The first makes way, as the reaper before this one may have killed the last few.
    for (int kills = kMostKills; LetLive(std::chrono::milliseconds(random_() % kLongestLife)); ++deaths_) {
      const pid_t former = broker_.Daemon();
      if (former <= 0) return;
      if (kills == kMostKills || random_() % kOnePlannedIn == 0) {
        kills = 0;
        ::kill(broker_.pid(), SIGUSR2);
      } else {
        ++kills;
        KeptBroker::Kill(former);
      }
      broker_.AwaitAnother(former);
    }
  }
  bool LetLive(std::chrono::milliseconds life) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, life, [this] { return stopping_; });
  }

  KeptBroker& broker_;
  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::atomic<int> deaths_ = 0;
  std::thread thread_;
};

class SoakTest : public testing::TestWithParam<int> {
 protected:
  // Before there is a broker, which is to be in the same network.
  static void SetUpTestSuite() { On(); }

  // So many activities, of consumers who come and go with them, under a broker that dies, or lives.
  void Round(bool dies = true) {
    constexpr int kActivities = 100;
    World world(On(), broker_);
    Workload workload(world);
    Traffic traffic(world);
    {
      std::optional<Reaper> reaper;
      if (dies) reaper.emplace(*broker_, random_());
      for (int i = 0; i < kActivities && !HasFailure(); ++i, ++activities_) RunOne(workload);
      if (dies) deaths_ += reaper->deaths();
    }
    traffic.ExpectGoesOn();
    messages_ += traffic.messages();
  }

  void RunOne(Workload& workload) {
    const auto& all = Workload::Activities();
    const Workload::Activity* activity = nullptr;
    do activity = &all[random_() % all.size()];
    while (activity->special);
    workload.Run(*activity);
  }

  void AwaitNothing() {
    EXPECT_TRUE(Becomes([this] { return broker_->Objects().empty(); }))
        << "the broker does not serve, or holds something";
  }
  // A process that has just taken over has no more than any other that has.
  std::vector<Sample> TakeSamples() {
    broker_->KillDaemon();
    AwaitNothing();
    return {SampleOf(::getpid()), SampleOf(broker_->pid()), SampleOf(broker_->Daemon())};
  }
  // And one that lives on has no more than it had, however much it does.
  void ExpectLivesFlat() {
    for (int i = 0; i < LivingRounds() / 2; ++i) Round(false);
    AwaitNothing();
    const Sample before = SampleOf(broker_->Daemon());
    const int begun = activities_;
    for (int i = 0; i < LivingRounds() && !HasFailure(); ++i) Round(false);
    AwaitNothing();
    EXPECT_EQ(broker_->Daemon(), before.pid);
    const Sample after = SampleOf(before.pid);
    ExpectFlat("the daemon that lives", before, after, kSlackOfTheLiving);
    std::printf("  %.0f bytes an activity\n",
                static_cast<double>(after.memory - before.memory) / (activities_ - begun));
  }
  static void ExpectFlat(const std::string& whose, const Sample& before, Sample after, int64_t slack = kSlack) {
    // Whoever has it may be told of some a moment later.
    EXPECT_TRUE(Becomes([&] {
      after.descriptors = Descriptors(after.pid);
      return after.descriptors == before.descriptors;
    })) << whose
        << ":\n"
        << Difference(before.descriptors, after.descriptors);
    EXPECT_GT(after.memory, 0) << whose;
    EXPECT_LE(after.memory, before.memory + slack) << "bytes of " << whose;
    std::printf("%s: %zu descriptors, %ld KiB, %+ld KiB\n", whose.c_str(), after.descriptors.size(),
                static_cast<long>(after.memory >> 10), static_cast<long>((after.memory - before.memory) >> 10));
  }

  const uint32_t seed_ = RandomSeed() + static_cast<uint32_t>(GetParam());
  std::mt19937 random_{seed_};
  const std::shared_ptr<KeptBroker> broker_ = std::make_shared<KeptBroker>(ndkpi::OwnPorts() + kGrace);
  int activities_ = 0;
  int deaths_ = 0;
  uint64_t messages_ = 0;
};

TEST_P(SoakTest, NothingIsLostAndNothingGrows) {
  std::printf("seed: %u\n", seed_);
  const auto end = Clock::now() + std::chrono::seconds(SoakSeconds());
  Round();
  const std::vector<Sample> before = TakeSamples();
  while (Clock::now() < end && !HasFailure()) Round();
  const std::vector<Sample> after = TakeSamples();
  ExpectFlat("the clients", before.at(0), after.at(0));
  ExpectFlat("the keeper", before.at(1), after.at(1), kSlackOfTheKeeper);
  ExpectFlat("the daemon", before.at(2), after.at(2));
  ExpectLivesFlat();
  EXPECT_GT(deaths_, 0);
  std::printf("covered: %d activities, %d deaths, %lu messages\n", activities_, deaths_,
              static_cast<unsigned long>(messages_));
}

INSTANTIATE_TEST_SUITE_P(Blocks, SoakTest, testing::Range(0, Setting("RDMA_BROKER_SOAK_BLOCKS", 1)));

}  // namespace
}  // namespace rdmabroker
