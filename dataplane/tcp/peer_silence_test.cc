// SPDX-License-Identifier: Apache-2.0

#include "dataplane/tcp/peer_silence.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/tcp/tcp_state.h"
#include "dataplane/testing/tcp_pair.h"

namespace rdmabroker::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kKeepalive = seconds(8);

// A connection's TCP, by the time since the peer has been heard for the last time; nothing where it is heard now.
struct Course {
  std::string name;
  std::function<TcpState(milliseconds)> at;
  // When it is found dead; nothing: never.
  std::optional<milliseconds> dead;
};

TcpState Silent(milliseconds since) { return {.silence = since, .since_sent = since}; }

TcpState SentAgain(milliseconds since) {
  TcpState state = Silent(since);
  state.unacknowledged = true;
  state.since_sent = since % milliseconds(1600);
  return state;
}

// Sends again at times that double, and is answered each time.
TcpState AnswersAtLength(milliseconds since) {
  const milliseconds interval = seconds(60);
  return {.silence = since % interval, .since_sent = since % interval, .unacknowledged = true, .unsent = true};
}

TcpState TakesNothing(milliseconds since) { return {.silence = since % seconds(120), .unsent = true}; }

// One probe of those may be lost.
TcpState TakesNothingAndIsAskedOnce(milliseconds since) {
  return {.silence = since, .unsent = true, .unanswered = since < seconds(20) ? 0u : 1u};
}
TcpState TakesNothingAndIsAskedTwice(milliseconds since) {
  return {.silence = since, .unsent = true, .unanswered = since < seconds(20) ? 0u : since < seconds(60) ? 1u : 2u};
}

TcpState Answers(milliseconds since) { return Silent(since % (kKeepalive / 2)); }

class PeerSilences : public testing::TestWithParam<Course> {};

TEST_P(PeerSilences, EndOnlyWhenAnAnswerIsOwedForLong) {
  PeerSilence silence(std::chrono::duration_cast<seconds>(kKeepalive));
  const PeerSilence::Clock::time_point begin{};
  std::optional<milliseconds> dead;
  for (auto now = silence.NextLook({}, begin); !dead && now < begin + seconds(600);) {
    const auto since = std::chrono::duration_cast<milliseconds>(now - begin);
    const TcpState state = GetParam().at(since);
    if (silence.IsDead(state, now)) dead = since;
    const auto next = silence.NextLook(state, now);
    ASSERT_GT(next, now);
    now = next;
  }
  EXPECT_EQ(dead, GetParam().dead);
}

INSTANTIATE_TEST_SUITE_P(
    Tcp, PeerSilences,
    testing::Values(Course{"NothingIsSaid", Silent, kKeepalive}, Course{"DataIsNotAcknowledged", SentAgain, kKeepalive},
                    Course{"ProbesAreAnswered", Answers, std::nullopt},
                    Course{"ThePeerTakesNothing", TakesNothing, std::nullopt},
                    Course{"ThePeerHasTakenItsWindowBack", AnswersAtLength, std::nullopt},
                    Course{"OneProbeOfAClosedWindowIsLost", TakesNothingAndIsAskedOnce, std::nullopt},
                    Course{"ThePeerTakesNothingAndThenDies", TakesNothingAndIsAskedTwice, seconds(62)}),
    [](const auto& course) { return course.param.name; });

// Whenever that is that the peer, which has answered, is heard for the last time.
TEST(PeerSilence, IsKnownAsSoonAsTheTimeIsOver) {
  for (const milliseconds keepalive : {seconds(2), seconds(3), seconds(8), seconds(30), seconds(3600)}) {
    for (int percent = 0; percent <= 200; percent += 7) {
      SCOPED_TRACE(testing::Message() << keepalive.count() << " ms, heard after " << percent << " %");
      PeerSilence silence(std::chrono::duration_cast<seconds>(keepalive));
      const PeerSilence::Clock::time_point begin{}, heard = begin + keepalive * percent / 100;
      const auto at = [&](PeerSilence::Clock::time_point now) {
        return Silent(
            std::chrono::duration_cast<milliseconds>(now < heard ? (now - begin) % (keepalive / 2) : now - heard));
      };
      auto now = silence.NextLook({}, begin);
      while (!silence.IsDead(at(now), now) && now < heard + 2 * keepalive) now = silence.NextLook(at(now), now);
      EXPECT_EQ(std::chrono::duration_cast<milliseconds>(now - heard).count(), keepalive.count());
    }
  }
}

TEST(PeerSilence, OfOneThatIsNotAskedIsNoDeath) {
  PeerSilence silence(std::chrono::duration_cast<seconds>(kKeepalive), PeerSilence::Asking::kDataOnly);
  const PeerSilence::Clock::time_point begin{};
  for (seconds since(0); since < 10 * kKeepalive; ++since) EXPECT_FALSE(silence.IsDead(Silent(since), begin + since));
  // Asked only now, it has a quarter of the time.
  const auto asked = begin + 10 * kKeepalive;
  EXPECT_FALSE(silence.IsDead(SentAgain(10 * kKeepalive), asked));
  EXPECT_TRUE(silence.IsDead(SentAgain(10 * kKeepalive + kKeepalive / 4), asked + kKeepalive / 4));
}

// A machine that slept, or a guest that was moved: the kernel's clocks have gone on.
TEST(PeerSilence, ThatAStandstillOfThisSideMadeIsNone) {
  PeerSilence silence(std::chrono::duration_cast<seconds>(kKeepalive));
  const PeerSilence::Clock::time_point begin{};
  EXPECT_FALSE(silence.IsDead(Silent(seconds(1)), begin + seconds(1)));
  EXPECT_FALSE(silence.IsDead(SentAgain(seconds(601)), begin + seconds(601)));
  EXPECT_FALSE(silence.IsDead(SentAgain(seconds(602)), begin + seconds(602)));
  EXPECT_FALSE(silence.IsDead(Silent(milliseconds(10)), begin + seconds(603))) << "now it was heard";
  EXPECT_FALSE(silence.IsDead(SentAgain(seconds(1)), begin + seconds(604)));
}

struct Times {
  seconds keepalive;
  int begin, interval, count;
};

TEST(PeerSilence, IsAskedAboutForHalfTheTimeAndByTcpUntilItIsOver) {
  const auto get = [](const TcpPair& pair, int level, int option) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(::getsockopt(pair.active.get(), level, option, &value, &length), 0);
    return value;
  };
  for (const Times& times : {Times{seconds(2), 1, 1, 2}, Times{seconds(3), 1, 1, 3}, Times{seconds(30), 15, 3, 6},
                             Times{seconds(31), 15, 3, 7}, Times{seconds(3600), 1800, 360, 6}}) {
    const TcpPair pair = ConnectTcpPair();
    AskSilentPeer(pair.active.get(), times.keepalive);
    EXPECT_EQ(get(pair, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(get(pair, IPPROTO_TCP, TCP_KEEPIDLE), times.begin);
    EXPECT_EQ(get(pair, IPPROTO_TCP, TCP_KEEPINTVL), times.interval);
    EXPECT_EQ(get(pair, IPPROTO_TCP, TCP_KEEPCNT), times.count);
    EXPECT_GT(times.begin + times.interval * times.count, times.keepalive.count()) << "the verdict is not TCP's";
    AskSilentPeer(pair.active.get(), seconds(0));
    EXPECT_EQ(get(pair, SOL_SOCKET, SO_KEEPALIVE), 0);
  }
}

}  // namespace
}  // namespace rdmabroker::tcp
