// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dataplane/testing/side.h"
#include "tests/conformance/misuse/stage.h"
#include "tests/conformance/misuse/turn.h"
#include "tests/control/patience.h"

namespace rdmabroker::misuse {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kBroker[] = "tests/conformance/ndkpi/counting_broker";
// The least that a sequence is long, besides what is made first and what callbacks do.
constexpr uint64_t kLeastCalls = 20;
constexpr uint64_t kMoreCalls = 30;
// A call that ends soon is given the time to; one that does not is not waited for.
constexpr milliseconds kPause{2};
constexpr milliseconds kLongPause{20};

// How two programs come to a connection, if nothing comes in between: who makes which call. The rest is their
// callbacks'.
struct Step {
  size_t party;
  const char* function;
};
constexpr Step kOpening[] = {{0, "Session.OpenAdapter"},
                             {1, "Session.OpenAdapter"},
                             {1, "Adapter.CreateListener"},
                             {1, "Listener.Listen"},
                             {0, "DataAdapter.CreateProtectionDomain"},
                             {1, "DataAdapter.CreateProtectionDomain"},
                             {0, "DataAdapter.CreateCompletionQueue"},
                             {1, "DataAdapter.CreateCompletionQueue"},
                             {0, "ProtectionDomain.CreateQueuePair"},
                             {1, "ProtectionDomain.CreateQueuePair"},
                             {0, "ProtectionDomain.CreateMemoryRegion"},
                             {0, "MemoryRegion.Register"},
                             {1, "ProtectionDomain.CreateMemoryRegion"},
                             {1, "MemoryRegion.Register"},
                             {0, "Adapter.CreateConnector"},
                             {0, "Connector.Connect"},
                             {1, "QueuePair.Receive"},
                             {0, "QueuePair.Send"}};

// What some then do with their memory.
constexpr Step kWindowAndFastRegister[] = {{0, "ProtectionDomain.CreateMemoryWindow"},
                                           {0, "QueuePair.Bind"},
                                           {0, "ProtectionDomain.CreateMemoryRegion"},
                                           {0, "MemoryRegion.InitializeFastRegister"},
                                           {0, "QueuePair.FastRegister"},
                                           {0, "QueuePair.Invalidate(MemoryRegion)"},
                                           {0, "QueuePair.Invalidate(MemoryWindow)"}};

// And with functions that wait.
constexpr Step kWaitForPeer[] = {{1, "BlockingListener.Listen"}};

[[noreturn]] void GiveUp(const Stage& stage, const std::vector<std::string>& objects) {
  std::fprintf(stderr, "seed %llu on %s hangs\n%s\nunended:\n%s\nat the broker:\n%s\n",
               static_cast<unsigned long long>(stage.seed), stage.on.adapter.c_str(),
               absl::StrJoin(stage.log(), "\n").c_str(), absl::StrJoin(stage.Unended(), "\n").c_str(),
               absl::StrJoin(objects, "\n").c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

// Until the calls after this one have ended.
void Pause(const StagePtr& stage, uint32_t call, milliseconds most) {
  stage->AwaitUntil(steady_clock::now() + stage->Longer(most), [&] { return stage->IdleSince(call); });
}

void Take(Turn& turn, std::span<const Step> steps) {
  turn.valid = true;
  for (const Step& step : steps) {
    turn.party = step.party;
    const uint32_t before = turn.stage->calls_made();
    MakeCall(turn, step.function);
    Pause(turn.stage, before, kLongPause);
  }
  turn.valid = false;
}

void Open(Turn& turn) {
  const std::span all(kOpening);
  if (!turn.dice.Percent(80)) return Take(turn, all.first(turn.dice.Below(all.size())));
  Take(turn, all);
  if (turn.dice.Percent(30)) Take(turn, kWindowAndFastRegister);
  if (turn.dice.Percent(15)) Take(turn, kWaitForPeer);
}

void Play(Turn& turn) {
  const uint64_t enough = turn.stage->calls_made() + kLeastCalls + turn.dice.Below(kMoreCalls);
  while (turn.stage->calls_made() < enough && turn.stage->MayCall()) {
    turn.party = turn.dice.Below(2);
    turn.valid = turn.dice.Percent(40);
    const uint32_t before = turn.stage->calls_made();
    MakeCall(turn);
    if (turn.dice.Percent(60)) Pause(turn.stage, before, kPause);
  }
  turn.valid = false;
}

bool HasOpen(const StagePtr& stage) {
  const std::vector<OwnedPtr> objects = stage->Objects();
  return std::any_of(objects.begin(), objects.end(),
                     [](const OwnedPtr& object) { return !object->close_called || object->kept; });
}

// One more end, on this thread or in a callback that is sure to come.
void EndSomething(Turn& turn) {
  std::vector<OwnedPtr> kept = turn.stage->Objects();
  std::erase_if(kept, [](const OwnedPtr& object) { return !object->kept.load(); });
  if (!kept.empty() && turn.dice.Percent(50)) {
    turn.stage->LetGo(turn.dice.Of(kept));
  } else if (turn.dice.Percent(30) && !turn.stage->session_close_called(turn.party)) {
    const uint64_t chance = turn.dice.Below(1u << 30);
    turn.session().ListAdapters([stage = turn.stage, party = turn.party, chance](const auto&, const auto&) {
      const Place place = {.where = Where::kSessionThread, .party = party};
      const Callback callback(stage, nullptr, "the devices", place);
      Turn own = {.stage = stage, .dice = Dice(chance), .party = party, .place = place};
      CloseSomething(own);
    });
  } else {
    CloseSomething(turn);
  }
}

// Gives up where a sequence takes too long, be it that a call does not return.
class Watchdog {
 public:
  Watchdog(StagePtr stage, RunningBroker& broker)
      : thread_([this, stage = std::move(stage), &broker] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, kLongestSequence, [this] { return over_; })) GiveUp(*stage, broker.Objects());
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  // A thousand times what one takes, and a sanitizer's share.
  static constexpr std::chrono::seconds kLongestSequence{60};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

void CloseAll(Turn& turn, RunningBroker& broker) {
  const StagePtr stage = turn.stage;
  stage->BeginEnding();
  const auto deadline = steady_clock::now() + kPatience;
  while (!stage->Idle() || HasOpen(stage)) {
    while (HasOpen(stage)) {
      turn.party = turn.dice.Below(2);
      EndSomething(turn);
    }
    // A create that was under way brings one more object, which its completion may close as well.
    if (!stage->AwaitUntil(deadline, [&] { return HasOpen(stage) || stage->Idle(); })) {
      GiveUp(*stage, broker.Objects());
    }
  }
  stage->JoinThreads();
}

}  // namespace

Programs::Programs(const ndkpi::Surroundings& surroundings)
    : surroundings_(surroundings),
      broker_(std::make_unique<RunningBroker>(ndkpi::OwnPorts(),
                                              std::vector<std::string>{kBroker, surroundings.adapter})) {}

void Programs::OpenSessions() {
  for (auto& session : sessions_) {
    if (session != nullptr) continue;
    client::SessionOptions options;
    options.control_socket = broker_->control_socket();
    auto opening = client::Session::Open(std::move(options));
    EXPECT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
    session = std::move(opening.session);
  }
}

std::vector<std::string> Programs::Run(uint64_t seed, Tally& tally) {
  OpenSessions();
  if (sessions_[0] == nullptr || sessions_[1] == nullptr) return {"the broker opens no session"};
  const auto stage = std::make_shared<Stage>(surroundings_, seed, tally,
                                             std::array<client::Session*, 2>{sessions_[0].get(), sessions_[1].get()},
                                             broker_->control_socket());
  const Watchdog watchdog(stage, *broker_);
  Turn turn = {.stage = stage, .dice = Dice(seed)};
  Open(turn);
  Play(turn);
  CloseAll(turn, *broker_);
  for (size_t party : {0, 1}) {
    if (stage->session_close_called(party)) sessions_[party] = nullptr;
  }
  std::vector<std::string> problems = stage->problems();
  if (stage->calls_made() < kLeastCalls) problems.push_back("there were too few calls");
  log_ = stage->log();
  stage->Clear();
  ExpectNothingLeft(&problems);
  return problems;
}

void Programs::ExpectNothingLeft(std::vector<std::string>* problems) {
  const auto living = std::count_if(sessions_.begin(), sessions_.end(), [](const auto& one) { return one != nullptr; });
  std::vector<std::string> left;
  const bool fine = Becomes([&] {
    left = broker_->Objects();
    return std::ssize(left) == living && std::all_of(left.begin(), left.end(), [](const std::string& text) {
             return text.rfind("session ", 0) == 0;
           });
  });
  if (!fine) problems->push_back(absl::StrCat("the broker holds\n", absl::StrJoin(left, "\n")));
}

int Programs::End() {
  for (auto& session : sessions_) session = nullptr;
  return broker_->Finish();
}

}  // namespace rdmabroker::misuse
