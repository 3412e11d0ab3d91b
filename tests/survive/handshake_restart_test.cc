// SPDX-License-Identifier: Apache-2.0

// The broker's process dies at each step of a connection's life, before and after each of its commits: from the opening
// of the sessions to the last close. Over user-space iWARP and on the fake, by the client library.

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/new_mortal_broker.h"

namespace rdmabroker {
namespace {

using ndkpi::Call;
using ndkpi::Connection;
using ndkpi::DisconnectEvents;
using ndkpi::TestListener;
using ndkpi::World;

const ndkpi::Surroundings& On(const std::string& adapter) {
  static const auto* const kIwarp = new ndkpi::Surroundings(ndkpi::Prepare("iwarp"));
  static const auto* const kFake = new ndkpi::Surroundings(ndkpi::Prepare("fake"));
  return adapter == "fake" ? *kFake : *kIwarp;
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
    const client::Outcome accept = accepted().back().accept.Wait();
    EXPECT_TRUE(accept.ok() || accept.status == NdkStatus::kConnectionAborted) << accept.hint;
    return accept.ok();
  }
  // The last, which is established. Of those before it each failed, or was told once that it is over.
  Accepted TheOne() {
    const std::vector<Accepted> all = accepted();
    Accepted one;
    size_t established = 0;
    for (const Accepted& each : all) {
      if (each.accept.Status() != NdkStatus::kSuccess) {
        EXPECT_EQ(each.accept.Status(), NdkStatus::kConnectionAborted) << each.accept.Wait().hint;
      } else if (&each != &all.back()) {
        each.events.Wait();
        EXPECT_EQ(each.events.count(), 1u);
      } else {
        ++established;
        one = each;
      }
    }
    EXPECT_EQ(established, 1u) << "of " << all.size() << " that were delivered";
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

class HandshakeRestart : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  // Before there is a broker, which is to be in the same network.
  static void SetUpTestSuite() { On("iwarp"); }

  const std::string adapter_ = std::get<0>(GetParam());
  const std::string when_ = std::get<1>(GetParam());

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
      EXPECT_EQ(last.Status(), NdkStatus::kConnectionAborted) << last.Wait().hint;
      EXPECT_EQ(made->active_events.count(), 0u);
    }
    EXPECT_TRUE(world.a().Close(made->active).Wait().ok());
    return false;
  }

  // From the first session to the last close.
  static void LiveOnce(const std::string& adapter, const std::shared_ptr<KeptBroker>& broker) {
    World world(On(adapter), broker);
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

TEST_P(HandshakeRestart, EndsAnAttemptAtMostAndNothingHappensTwice) {
  std::shared_ptr<KeptBroker> broker;
  int commits = 1;
  for (bool died = true; died && commits < kMostCommits && !HasFailure(); ++commits) {
    if (commits % KeptBroker::kPromptRestarts == 1) {
      broker = NewMortalBroker(adapter_, ndkpi::OwnPorts() + KeptBroker::kShortGrace);
    }
    const std::string death = "die " + when_ + " " + std::to_string(commits) + " anyhow";
    SCOPED_TRACE(death);
    const pid_t former = broker->Daemon();
    ASSERT_EQ(broker->Ask(death), "done");
    LiveOnce(adapter_, broker);
    died = broker->Daemon() != former;
  }
  std::cout << "covered: deaths " << when_ << " each of " << commits << " commits\n";
  EXPECT_GT(commits, 20);
}

INSTANTIATE_TEST_SUITE_P(ACommit, HandshakeRestart,
                         testing::Combine(testing::Values("iwarp", "fake"), testing::Values("before", "after")),
                         [](const auto& param) { return std::get<0>(param.param) + "_" + std::get<1>(param.param); });

}  // namespace
}  // namespace rdmabroker
