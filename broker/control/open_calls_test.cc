// SPDX-License-Identifier: Apache-2.0

#include "broker/control/open_calls.h"

#include <gtest/gtest.h>

#include <string>

namespace rdmabroker {
namespace {

Caller User(uint32_t uid) { return {.identity = {.uid = uid}}; }
Caller Administrator(const std::string& spiffe_id) {
  return {.identity = {.uid = kNoUser}, .administrator = true, .spiffe_id = spiffe_id};
}

class OpenCallsTest : public testing::Test {
 protected:
  // What he is told; "" where he has one more.
  std::string Open(const Caller& caller) {
    const auto refusal = open_.RefuseTo(caller);
    if (!refusal) {
      open_.Enter(WhoIs(caller));
      return "";
    }
    EXPECT_EQ(refusal->status, NdkStatus::kInsufficientResources);
    return refusal->hint;
  }

  OpenCalls open_{"call", {.of_caller = 2, .of_users = 3, .in_all = 4}};
};

TEST_F(OpenCallsTest, ACallerHasNoMoreThanOneMayAndEndsHisOwn) {
  EXPECT_EQ(Open(User(7)), "");
  EXPECT_EQ(Open(User(7)), "");
  EXPECT_EQ(Open(User(7)), "call: uid:7 has 2 already; end one");
  EXPECT_EQ(Open(User(8)), "");
  open_.Leave("uid:7");
  EXPECT_EQ(Open(User(7)), "");
}

TEST_F(OpenCallsTest, UsersLeaveRoomForAdministratorsWhoHaveABoundThemselves) {
  for (const uint32_t uid : {7, 7, 8}) EXPECT_EQ(Open(User(uid)), "");
  EXPECT_EQ(Open(User(9)), "call: there are too many already; have somebody end one");
  EXPECT_EQ(Open(Administrator("spiffe://a/b")), "");
  EXPECT_EQ(Open(Administrator("spiffe://a/c")), "call: there are too many already; have somebody end one");
  open_.Leave("spiffe://a/b");
  EXPECT_EQ(Open(Administrator("spiffe://a/c")), "");
}

}  // namespace
}  // namespace rdmabroker
