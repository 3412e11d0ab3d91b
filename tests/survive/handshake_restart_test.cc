// SPDX-License-Identifier: Apache-2.0

// The broker's process dies at each step of a connection's life, before and after each of its commits: from the opening
// of the sessions to the last close. By the client library, on one adapter.
//
//   handshake_restart_test fake|iwarp|rxe|siw [GTEST_OPTION ...]

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/needed.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/new_mortal_broker.h"
#include "tests/survive/price.h"

namespace rdmabroker {
namespace {

using ndkpi::Call;
using ndkpi::Connection;
using ndkpi::DisconnectEvents;
using ndkpi::TestListener;
using ndkpi::World;

// Set before there is a broker, which is to be in the same network.
const ndkpi::Surroundings* g_on = nullptr;

void ExpectPrice(HandshakeStep step, const client::Outcome& outcome) {
  std::cout << "a death has cost: " << StatusName(outcome.status) << " " << outcome.provider_error << " "
            << outcome.hint << "\n";
  EXPECT_TRUE(IsPriceOfADeath(g_on->adapter, step, outcome.status))
      << "step " << static_cast<int>(step) << ": " << StatusName(outcome.status) << ": " << outcome.hint;
}

// An Accept over soft iWARP whose peer has given up ends with the broker's time, within a test's patience.
std::string Settings() {
  const bool in_guest = g_on->adapter == "rxe" || g_on->adapter == "siw";
  return in_guest ? "timeouts.establish_ms = 12000\n" : "";
}

// A death ends one attempt at most, of the two ends of which one may have been established.
constexpr size_t kAttempts = 2;
constexpr int kMostCommits = 200;

// Accepts all that come.
class Acceptor {
 public:
  struct Accepted {
    std::shared_ptr<client::Connector> connector;
    QueuePair* queue_pair = nullptr;
    Call accept{"no Accept"};
    DisconnectEvents events;
  };

  Acceptor(World& world, const TestListener& listener) : world_(world), listener_(listener) {
    for (size_t i = 0; i < kAttempts; ++i) spare_.push_back(world.b().NewQueuePair());
    listener.Handle([this](const std::shared_ptr<client::Connector>& connector) { Take(connector); });
  }
  ~Acceptor() { listener_.Handle({}); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Of a connection that its active side has: whether this one has it, too. It may have failed of the death.
  bool HasIt() {
    const std::vector<Accepted> all = accepted();
    const client::Outcome accept = Needed(all.empty() ? nullptr : &all.back(), "passive side")->accept.Wait();
    if (!accept.ok()) ExpectPrice(HandshakeStep::kAccept, accept);
    return accept.ok();
  }
  // The last, which is established; the test ends where none is. Of those before it each failed, or was told once that
  // it is over.
  Accepted TheOne() {
    const std::vector<Accepted> all = accepted();
    Accepted one;
    size_t established = 0;
    for (const Accepted& each : all) {
      if (each.accept.Status() != NdkStatus::kSuccess) {
        ExpectPrice(HandshakeStep::kAccept, each.accept.Wait());
      } else if (&each != &all.back()) {
        each.events.Wait();
        EXPECT_EQ(each.events.count(), 1u);
      } else {
        ++established;
        one = each;
      }
    }
    EXPECT_EQ(established, 1u) << "of " << all.size() << " that were delivered";
    Needed(one.connector, "established passive side");
    return one;
  }
  void Close() {
    for (const Accepted& each : accepted()) EXPECT_TRUE(world_.b().Close(each.connector).Wait().ok());
  }

 private:
  std::vector<Accepted> accepted() {
    const std::lock_guard lock(mutex_);
    return accepted_;
  }
  // On the session's thread.
  void Take(const std::shared_ptr<client::Connector>& connector) {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) {
      ADD_FAILURE() << "more are delivered than were asked for";
      return;
    }
    Accepted& made = accepted_.emplace_back();
    made.connector = connector;
    made.queue_pair = spare_.back();
    spare_.pop_back();
    made.accept = world_.b().Accept(connector, made.queue_pair, {}, made.events.callback());
  }

  World& world_;
  const TestListener& listener_;
  std::mutex mutex_;
  std::vector<QueuePair*> spare_;
  std::vector<Accepted> accepted_;
};

// Each kStride-th commit is a test's, so that these may run side by side.
constexpr int kStride = 4;

class HandshakeRestart : public testing::Test {
 public:
  HandshakeRestart(std::string when, int first) : when_(std::move(when)), first_(first) {}
  void TestBody() override;

 private:
  const std::string when_;
  const int first_;

  // False where the attempt has ended with the broker's process. Its connector is closed then.
  static bool Connect(World& world, const TestListener& listener, Acceptor& acceptor, Connection* made) {
    made->active = world.a().NewConnector();
    made->active_qp = world.a().NewQueuePair();
    const Call connect = world.a().Connect(made->active, made->active_qp, listener.address);
    Call last = connect;
    if (connect.Status() == NdkStatus::kSuccess) {
      last = world.a().CompleteConnect(made->active, made->active_events.callback());
    } else {
      EXPECT_TRUE(connect.Wait().retryable) << connect.Wait().hint;
    }
    if (last.Status() == NdkStatus::kSuccess) {
      if (acceptor.HasIt()) return true;
      EXPECT_EQ(made->active_events.Wait().status, NdkStatus::kConnectionAborted);
      EXPECT_EQ(made->active_events.count(), 1u);
    } else {
      ExpectPrice(connect.Status() == NdkStatus::kSuccess ? HandshakeStep::kCompleteConnect : HandshakeStep::kConnect,
                  last.Wait());
      EXPECT_EQ(made->active_events.count(), 0u);
    }
    EXPECT_TRUE(world.a().Close(made->active).Wait().ok());
    return false;
  }

  // From the first session to the last close.
  static void LiveOnce(const std::shared_ptr<KeptBroker>& broker) {
    World world(*g_on, broker);
    const TestListener listener = world.b().Listening();
    Acceptor acceptor(world, listener);
    Connection made;
    size_t attempts = 0;
    while (attempts++ < kAttempts && !Connect(world, listener, acceptor, &made)) made = {};
    ASSERT_NE(made.active, nullptr) << "the second attempt failed, too";
    const Acceptor::Accepted one = acceptor.TheOne();
    made.passive = one.connector;
    made.passive_qp = one.queue_pair;
    world.ExpectCarries(made);
    EXPECT_EQ(made.active_events.count(), 0u);
    EXPECT_EQ(one.events.count(), 0u);
    world.Disconnect(world.a(), world.b(), made);
    EXPECT_LE(made.active_events.count(), 1u);
    EXPECT_LE(one.events.count(), 1u);
    EXPECT_TRUE(world.a().Close(made.active).Wait().ok());
    acceptor.Close();
    EXPECT_TRUE(world.b().Close(listener.object).Wait().ok());
    // Nobody has the address any more.
    EXPECT_TRUE(world.b().Close(world.b().ListeningAt(listener.address).object).Wait().ok());
  }
};

void HandshakeRestart::TestBody() {
  std::shared_ptr<KeptBroker> broker;
  int commit = first_, lives = 0;
  for (bool died = true; died && commit < kMostCommits && !HasFailure(); commit += kStride, ++lives) {
    if (lives % KeptBroker::kPromptRestarts == 0) broker = NewMortalBroker(g_on->adapter, Settings());
    broker->LeaveOutStrays();
    const Death death = {.when = when_, .commit = static_cast<uint32_t>(commit), .anyhow = true};
    died = DiesWithin(*broker, death, [&] { LiveOnce(broker); });
  }
  std::cout << "covered: deaths " << when_ << " each " << kStride << "th of " << commit << " commits\n";
  EXPECT_GT(commit, 20);
}

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: handshake_restart_test ADAPTER\n");
    return 64;
  }
  const ndkpi::Surroundings on = ndkpi::Prepare(argv[1]);
  g_on = &on;
  for (const std::string when : {"before", "after"}) {
    for (int first = 1; first <= kStride; ++first) {
      testing::RegisterTest(("ADeathCostsAnAttemptAtMostAndNothingHappensTwice/" + on.adapter).c_str(),
                            (when + "Commit" + std::to_string(first)).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [when, first]() -> testing::Test* { return new HandshakeRestart(when, first); });
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) { return rdmabroker::Run(argc, argv); }
