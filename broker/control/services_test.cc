// SPDX-License-Identifier: Apache-2.0

#include "broker/control/services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rdmabroker {
namespace {

using testing::IsSupersetOf;

TEST(ServicesTest, EachMethodOfTheContractAndOfHealthIsMissingUntilItIsAdded) {
  Services services;
  std::vector<std::string> missing = services.Missing();
  EXPECT_THAT(missing, IsSupersetOf({"/rdmabroker.v1.Broker/Session", "/rdmabroker.v1.Broker/Listen",
                                     "/rdmabroker.v1.Inspection/ListAdapters", "/rdmabroker.v1.Inspection/Watch",
                                     "/rdmabroker.v1.Administration/Restart", "/grpc.health.v1.Health/Check"}));
  while (!missing.empty()) {
    services.Add(missing.back(), rpc::Requests::kOne, {});
    missing.pop_back();
    ASSERT_EQ(services.Missing(), missing);
  }
}

}  // namespace
}  // namespace rdmabroker
