// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/request_rates.h"

#include <gtest/gtest.h>

#include <string>

namespace rdmabroker {
namespace {

constexpr uint32_t kUid = 1000;

Rule Limited(const std::string& name, uint32_t rate) { return {.name = name, .quotas = {.requests_per_second = rate}}; }

class RequestRatesTest : public testing::Test {
 protected:
  // How many are let through at once.
  int Burst(const Rule& rule, uint32_t uid = kUid) {
    int taken = 0;
    while (taken < 1000 && !rates_.Take(rule, uid, now_)) ++taken;
    return taken;
  }

  RequestRates rates_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(RequestRatesTest, ABucketHoldsOneSecondsRequests) {
  for (const uint32_t rate : {1u, 3u, 7u, 100u}) {
    EXPECT_EQ(Burst(Limited("a", rate), rate), static_cast<int>(rate));
  }
}

TEST_F(RequestRatesTest, ItFillsAtItsRateAndNoFurther) {
  const Rule rule = Limited("a", 10);
  EXPECT_EQ(Burst(rule), 10);
  now_ += absl::Milliseconds(99);
  EXPECT_EQ(Burst(rule), 0);
  now_ += absl::Milliseconds(1);
  EXPECT_EQ(Burst(rule), 1);
  now_ += absl::Milliseconds(350);
  EXPECT_EQ(Burst(rule), 3);
  now_ += absl::Hours(1);
  EXPECT_EQ(Burst(rule), 10);
}

TEST_F(RequestRatesTest, WhoComesTooEarlyIsToldHowLongToWaitAndIsNotCounted) {
  const Rule rule = Limited("a", 10);
  Burst(rule);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rates_.Take(rule, kUid, now_), absl::Milliseconds(100));
  now_ += absl::Milliseconds(40);
  EXPECT_EQ(rates_.Take(rule, kUid, now_), absl::Milliseconds(60));
  now_ += absl::Milliseconds(60);
  EXPECT_EQ(rates_.Take(rule, kUid, now_), std::nullopt);
}

TEST_F(RequestRatesTest, UsersAndRulesHaveBucketsOfTheirOwn) {
  EXPECT_EQ(Burst(Limited("a", 5), 1), 5);
  EXPECT_EQ(Burst(Limited("a", 5), 2), 5);
  EXPECT_EQ(Burst(Limited("b", 5), 1), 5);
  EXPECT_EQ(Burst(Limited("a", 5), 1), 0);
}

TEST_F(RequestRatesTest, AnotherPolicyKeepsTheBucketsOfRulesThatStayAsTheyAre) {
  Burst(Limited("same", 5));
  Burst(Limited("faster", 5));
  Burst(Limited("gone", 5));
  rates_.Keep({.rules = {Limited("same", 5), Limited("faster", 6)}});
  EXPECT_EQ(rates_.size(), 1u);
  EXPECT_EQ(Burst(Limited("same", 5)), 0);
  EXPECT_EQ(Burst(Limited("faster", 6)), 6);
  EXPECT_EQ(Burst(Limited("gone", 5)), 5);
}

TEST_F(RequestRatesTest, UsersWhoHaveGoneAreForgotten) {
  const Rule rule = Limited("a", 100);
  for (uint32_t uid = 0; uid < 20000; ++uid) {
    EXPECT_EQ(rates_.Take(rule, uid, now_), std::nullopt);
    now_ += absl::Milliseconds(1);
  }
  EXPECT_LE(rates_.size(), 1100u);
}

}  // namespace
}  // namespace rdmabroker
