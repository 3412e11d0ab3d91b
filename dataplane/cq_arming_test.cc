// SPDX-License-Identifier: Apache-2.0

#include "dataplane/cq_arming.h"

#include <gtest/gtest.h>

namespace rdmabroker {
namespace {

TEST(CqNotify, ArmingTwiceKeepsTheStronger) {
  using enum CqNotify;
  const struct {
    CqNotify first, second, result;
  } rows[] = {
      {kAny, kAny, kAny},
      {kAny, kErrors, kAny},
      {kAny, kSolicited, kAny},
      {kErrors, kAny, kAny},
      {kErrors, kErrors, kErrors},
      {kErrors, kSolicited, kSolicited},
      {kSolicited, kAny, kAny},
      {kSolicited, kErrors, kSolicited},
      {kSolicited, kSolicited, kSolicited},
  };
  for (const auto& row : rows) EXPECT_EQ(MergeCqNotify(row.first, row.second), row.result);
}

TEST(CqArming, FiresOnceOnTheFirstResultOfTheKind) {
  using enum CqNotify;
  const struct {
    CqNotify type;
    bool solicited, fires;
  } rows[] = {{kAny, false, true},      {kAny, true, true},      {kSolicited, false, false},
              {kSolicited, true, true}, {kErrors, false, false}, {kErrors, true, false}};
  for (const auto& row : rows) {
    CqArming arming;
    EXPECT_FALSE(arming.Arm(row.type));
    EXPECT_EQ(arming.HandleResult(row.solicited), row.fires);
    EXPECT_EQ(arming.armed(), !row.fires);
    EXPECT_FALSE(arming.HandleResult(false) && row.fires) << "armed once, notified twice";
  }
}

TEST(CqArming, IsDueAtOnceForWhatCameSinceTheLastNotificationAndWaitsStill) {
  CqArming arming;
  EXPECT_FALSE(arming.HandleResult(false));
  EXPECT_FALSE(arming.Arm(CqNotify::kSolicited)) << "it was not solicited";
  EXPECT_TRUE(arming.Arm(CqNotify::kAny));
  EXPECT_FALSE(arming.Arm(CqNotify::kAny)) << "it has been notified of";
  EXPECT_TRUE(arming.HandleResult(true));
  EXPECT_FALSE(arming.HandleResult(true));
  arming.HandleTaken(0);
  EXPECT_FALSE(arming.Arm(CqNotify::kAny)) << "the consumer has it";
}

TEST(CqArming, IsNotDueForASolicitedResultThatHasBeenTakenFromBeforeOthers) {
  CqArming arming;
  EXPECT_FALSE(arming.HandleResult(true));
  EXPECT_FALSE(arming.HandleResult(false));
  EXPECT_FALSE(arming.HandleResult(true));
  EXPECT_FALSE(arming.HandleResult(false));
  arming.HandleTaken(2);
  CqArming half = arming;
  EXPECT_TRUE(half.Arm(CqNotify::kSolicited)) << "the second one waits still";
  arming.HandleTaken(1);
  EXPECT_FALSE(arming.Arm(CqNotify::kSolicited));
  EXPECT_TRUE(arming.Arm(CqNotify::kAny)) << "one of another kind waits";
}

}  // namespace
}  // namespace rdmabroker
