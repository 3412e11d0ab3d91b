// SPDX-License-Identifier: Apache-2.0

#include "broker/control/connect_rates.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace rdmabroker {
namespace {

constexpr uid_t kUser = 1000;
constexpr uid_t kFirstOther = 100'000;
constexpr int kBurst = 8;

class ConnectRatesTest : public testing::Test {
 protected:
  // How often the user may connect at once.
  int Exhaust(uid_t user) {
    int connections = 0;
    while (connections <= kBurst && rates_.Take(user, now_)) ++connections;
    return connections;
  }
  // Fills the table of users: each of the others connects this many times.
  void ConnectOthers(int times) {
    for (uid_t other = kFirstOther; other < kFirstOther + ConnectRates::kMostUsers - 1; ++other) {
      for (int i = 0; i < times; ++i) EXPECT_TRUE(rates_.Take(other, now_));
    }
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  ConnectRates rates_{{.burst = kBurst, .a_second = 4}};
};

TEST_F(ConnectRatesTest, AUserMayConnectSoManyTimesAtOnceAndSoOftenASecond) {
  EXPECT_EQ(Exhaust(kUser), kBurst);
  EXPECT_EQ(Exhaust(kUser + 1), kBurst) << "another user has its own rate";
  now_ += absl::Milliseconds(249);
  EXPECT_EQ(Exhaust(kUser), 0);
  now_ += absl::Milliseconds(1);
  EXPECT_EQ(Exhaust(kUser), 1);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Exhaust(kUser), 4);
  now_ += absl::Hours(1);
  EXPECT_EQ(Exhaust(kUser), kBurst);
}

TEST_F(ConnectRatesTest, ManyUsersGiveNobodyConnectionsBack) {
  EXPECT_EQ(Exhaust(kUser), kBurst);
  ConnectOthers(1);
  for (uid_t user = 1; user <= 10; ++user) EXPECT_TRUE(rates_.Take(user, now_));
  EXPECT_EQ(Exhaust(kUser), 0);
}

TEST_F(ConnectRatesTest, OneThatMayConnectMostOftenIsForgottenFirst) {
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(rates_.Take(kUser, now_));
  ConnectOthers(3);
  EXPECT_EQ(Exhaust(1), kBurst) << "a further one has its own rate";
  EXPECT_EQ(Exhaust(1), 0);
  EXPECT_EQ(Exhaust(kFirstOther), kBurst - 3);
  EXPECT_EQ(Exhaust(kUser), kBurst);
}

TEST_F(ConnectRatesTest, WhoMayConnectAsOftenAsANewOneIsForgottenFirst) {
  ConnectOthers(1);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Exhaust(kUser), kBurst);
  for (uid_t user = kUser + 1; user < kUser + ConnectRates::kMostUsers; ++user) EXPECT_EQ(Exhaust(user), kBurst);
  EXPECT_EQ(Exhaust(kUser), 0);
}

}  // namespace
}  // namespace rdmabroker
