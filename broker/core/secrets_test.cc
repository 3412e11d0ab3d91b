// SPDX-License-Identifier: Apache-2.0

#include "broker/core/secrets.h"

#include <gtest/gtest.h>

namespace rdmabroker {
namespace {

TEST(Secrets, AreComparedToTheLastByte) {
  const SessionSecret secret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  EXPECT_TRUE(SecretsEqual(secret, secret));
  for (size_t byte = 0; byte < secret.size(); ++byte) {
    SessionSecret other = secret;
    other[byte] ^= 0x80;
    EXPECT_FALSE(SecretsEqual(secret, other)) << byte;
  }
}

}  // namespace
}  // namespace rdmabroker
