// SPDX-License-Identifier: Apache-2.0

#include "broker/control/accepting_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/control/listening_socket.h"
#include "broker/runtime/loop_for_test.h"
#include "tests/control/connections.h"
#include "tests/control/patience.h"
#include "tests/control/stopped_clock.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

using State = TlsConnection::State;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kMost = AcceptingThread::kMostUnderWay;
// Nothing that is to happen after it happens in a test.
constexpr absl::Duration kNever = absl::Hours(1);

// A listening socket, and what has become of those who connect to it.
struct Entrance {
  std::string path;
  AcceptingThread::ListenerId id = AcceptingThread::ListenerId::kNone;
  // Is called on the accepting thread, before each connection: with how many have come before it.
  std::function<bool(int before)> may_enter = [](int) { return true; };
  std::atomic<int> came = 0;
  // Is called on the loop thread, before each connection is taken: with how many were taken before it.
  std::function<void(int before)> take = [](int) {};
  std::vector<UniqueFd> taken;
  std::vector<uint64_t> refused;  // Each time that refusals were told.
};

class AcceptingThreadTest : public testing::Test {
 protected:
  AcceptingThreadTest() {
    Open(entrance_, "entrance");
    Open(another_, "another");
  }

  void Open(Entrance& entrance, const std::string& name) {
    entrance.path = folder_.path() + "/" + name;
    auto listener = ListenOnUnixSocket({.path = entrance.path, .type = SOCK_STREAM, .mode = 0600, .group = {}});
    ASSERT_TRUE(listener.ok()) << listener.status();
    AcceptingThread::Listener callbacks;
    callbacks.name = "test";
    callbacks.may_enter = [&entrance](int) { return entrance.may_enter(entrance.came++); };
    callbacks.take = [&entrance](UniqueFd socket) {
      entrance.take(static_cast<int>(entrance.taken.size()));
      entrance.taken.push_back(std::move(socket));
    };
    callbacks.refused = [&entrance](uint64_t count) { entrance.refused.push_back(count); };
    entrance.id = accepting_->Accept(*std::move(listener), std::move(callbacks));
  }

  static UniqueFd Connect(const Entrance& entrance) {
    return ConnectAs(::getuid(), ::getgid(), entrance.path, SOCK_STREAM);
  }
  void ConnectMany(int count) {
    for (int i = 0; i < count; ++i) {
      clients_.push_back(Connect(entrance_));
      ASSERT_TRUE(clients_.back());
    }
  }
  // Returns once the accepting thread has had a turn: it takes whom it may before it is done with the second of these.
  void HaveATurn() {
    for (int i = 0; i < 2; ++i) {
      const int before = another_.came;
      clients_.push_back(Connect(another_));
      ASSERT_TRUE(Becomes([&] { return another_.came > before; }));
    }
  }
  bool AllAreOver() {
    return Becomes([&] { return std::all_of(clients_.begin(), clients_.end(), IsOver); });
  }
  bool AreTaken(int count) {
    return RunUntil(loop_, [&] { return entrance_.taken.size() == static_cast<size_t>(count); });
  }

  // Begins a handshake on one end of a stream, and returns the other.
  UniqueFd Shake(absl::Time end, AcceptingThread::Shaken done) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    accepting_->Shake(UniqueFd(ends[0]), tls_, end, std::move(done));
    return UniqueFd(ends[1]);
  }

  const TemporaryFolder folder_;
  // It needs no certificate as long as the client says nothing that makes sense.
  const std::shared_ptr<const TlsServer> tls_ = std::make_shared<TlsServer>(MakeTlsContext());
  Loop loop_;
  std::vector<UniqueFd> clients_;
  Entrance entrance_;
  Entrance another_;
  std::optional<AcceptingThread> accepting_{std::in_place, loop_};
};

TEST_F(AcceptingThreadTest, LeavesToTheBacklogWhoComesWhileSoManyWait) {
  ConnectMany(kMost + 10);
  EXPECT_TRUE(Becomes([&] { return entrance_.came >= kMost; }));
  HaveATurn();
  EXPECT_EQ(entrance_.came, kMost) << "another socket has its own bound";
  {
    // A turn ends early on a busy machine.
    const StoppedClock clock;
    EXPECT_TRUE(loop_.RunTurn(Loop::Now()));
  }
  EXPECT_EQ(entrance_.taken.size(), static_cast<size_t>(kMost)) << "later connections wait for the next turn";
  EXPECT_TRUE(AreTaken(kMost + 10));
}

TEST_F(AcceptingThreadTest, GoesOnOnceHalfOfThemWereTaken) {
  entrance_.take = [&](int before) {
    if (before == kMost / 2 - 1) {
      HaveATurn();
      EXPECT_EQ(entrance_.came, kMost) << "the half is not taken yet";
    }
    if (before == kMost / 2) {
      EXPECT_TRUE(Becomes([&] { return entrance_.came >= kMost + kMost / 2; }));
      HaveATurn();
      EXPECT_EQ(entrance_.came, kMost + kMost / 2) << "so many wait again";
    }
  };
  ConnectMany(kMost * 3 / 2 + 10);
  EXPECT_TRUE(Becomes([&] { return entrance_.came >= kMost; }));
  EXPECT_TRUE(AreTaken(kMost * 3 / 2 + 10));
}

// The loop thread has said that half were taken when there was no need to. It is heard when so many wait.
TEST_F(AcceptingThreadTest, WhoGoesOnWithoutNeedTakesOneMoreAtMost) {
  constexpr int kFirst = kMost / 2 + 1;
  std::atomic<bool> held = true;
  entrance_.may_enter = [&](int before) { return before != kFirst || Becomes([&] { return !held; }); };
  ConnectMany(kFirst + kMost + 10);
  ASSERT_TRUE(Becomes([&] { return entrance_.came > kFirst; }));
  EXPECT_TRUE(AreTaken(kFirst));
  held = false;
  EXPECT_TRUE(Becomes([&] { return entrance_.came >= kFirst + kMost; }));
  HaveATurn();
  EXPECT_LE(entrance_.came, kFirst + kMost + 1);
  EXPECT_TRUE(AreTaken(kFirst + kMost + 10));
}

TEST_F(AcceptingThreadTest, RefusalsAreCountedTogetherAndTakeNobodysPlace) {
  entrance_.may_enter = [](int) { return false; };
  for (const int count : {kMost + 10, 3}) {
    ConnectMany(count);
    EXPECT_TRUE(AllAreOver());
    clients_.clear();
    entrance_.refused.clear();
    EXPECT_TRUE(loop_.RunTurn(Loop::Now()));
    EXPECT_THAT(entrance_.refused, ElementsAre(static_cast<uint64_t>(count)));
    EXPECT_FALSE(loop_.RunTurn(Loop::Now()));
  }
  EXPECT_THAT(entrance_.taken, IsEmpty());
}

TEST_F(AcceptingThreadTest, ASocketThatIsStoppedClosesWhoWaitsAndRefusesOthers) {
  ConnectMany(kMost + 10);
  EXPECT_TRUE(Becomes([&] { return entrance_.came >= kMost; }));
  accepting_->Stop(entrance_.id);
  // The loop closes the connections that wait for it, which may take several turns.
  EXPECT_TRUE(Becomes([&] {
    loop_.RunTurn(Loop::Now());
    return std::all_of(clients_.begin(), clients_.end(), IsOver);
  }));
  EXPECT_THAT(entrance_.taken, IsEmpty());
  EXPECT_FALSE(Connect(entrance_));
  EXPECT_EQ(errno, ECONNREFUSED);
  HaveATurn();
  EXPECT_TRUE(RunUntil(loop_, [&] { return another_.taken.size() == 2; })) << "the other goes on";
  accepting_->Stop(entrance_.id);
  accepting_->Stop(AcceptingThread::ListenerId::kNone);
}

TEST_F(AcceptingThreadTest, NothingIsToldOfASocketThatIsStopped) {
  entrance_.may_enter = [](int) { return false; };
  ConnectMany(3);
  EXPECT_TRUE(AllAreOver());
  accepting_->Stop(entrance_.id);
  EXPECT_TRUE(loop_.RunTurn(Loop::Now()));
  EXPECT_THAT(entrance_.refused, IsEmpty());
}

TEST_F(AcceptingThreadTest, AHandshakeEndsWithItsTimeOrWithItsClient) {
  const struct {
    const char* name;
    std::function<void(UniqueFd& client)> act;
    std::optional<State> state;  // None: the socket has failed.
    absl::Duration time;
  } rows[] = {
      {"says nothing", [](UniqueFd&) {}, State::kHandshake, absl::Milliseconds(10)},
      {"says the half", [](UniqueFd& client) { EXPECT_EQ(::send(client.get(), "\x16\x03\x01", 3, 0), 3); },
       State::kHandshake, absl::Milliseconds(10)},
      {"says what is no TLS", [](UniqueFd& client) { EXPECT_EQ(::send(client.get(), "GET /", 5, 0), 5); },
       State::kEnded, kNever},
      {"leaves", [](UniqueFd& client) { client.Reset(); }, std::nullopt, kNever},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    bool done = false;
    const absl::Time end = Loop::Now() + row.time;
    UniqueFd client = Shake(end, [&](const UniqueFd& socket, std::unique_ptr<TlsConnection> tls) {
      done = true;
      EXPECT_TRUE(socket);
      EXPECT_EQ(tls == nullptr ? std::nullopt : std::optional(tls->state()), row.state);
      EXPECT_EQ(Loop::Now() >= end, row.state == State::kHandshake);
    });
    row.act(client);
    EXPECT_TRUE(RunUntil(loop_, [&] { return done; }));
  }
}

TEST_F(AcceptingThreadTest, ItsEndEndsHandshakesAndClosesItsSockets) {
  bool done = false;
  const UniqueFd client = Shake(Loop::Now() + kNever, [&](const UniqueFd&, const auto&) { done = true; });
  accepting_.reset();
  EXPECT_TRUE(IsOver(client));
  EXPECT_FALSE(loop_.RunTurn(Loop::Now()));
  EXPECT_FALSE(done);
  EXPECT_FALSE(Connect(entrance_));
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace rdmabroker
