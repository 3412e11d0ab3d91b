// SPDX-License-Identifier: Apache-2.0

#include "broker/control/spiffe_id.h"

#include <gtest/gtest.h>

#include <string>

namespace rdmabroker {
namespace {

TEST(SpiffeId, IsTakenAsTheStandardWritesIt) {
  for (const std::string& id :
       {std::string("spiffe://example.org/a"), std::string("spiffe://example.org/ns/prod/sa/Web_1.2-x"),
        std::string("spiffe://1-a_b.c/..."), "spiffe://" + std::string(255, 'a') + "/b",
        "spiffe://a/" + std::string(2048 - 11, 'b')}) {
    EXPECT_EQ(SpiffeIdProblem(id), "") << id;
  }
}

TEST(SpiffeId, IsRefusedOtherwiseAndNeverMended) {
  for (const std::string& id : {std::string(),
                                std::string("spiffe:"),
                                std::string("spiffe://"),
                                std::string("https://example.org/a"),
                                std::string("SPIFFE://example.org/a"),
                                std::string("spiffe://Example.org/a"),
                                std::string("spiffe:///a"),
                                std::string("spiffe://example.org"),
                                std::string("spiffe://example.org/"),
                                std::string("spiffe://example.org/a/"),
                                std::string("spiffe://example.org//a"),
                                std::string("spiffe://example.org/./a"),
                                std::string("spiffe://example.org/../a"),
                                std::string("spiffe://example.org/a?b"),
                                std::string("spiffe://example.org/a#b"),
                                std::string("spiffe://example.org/%61"),
                                std::string("spiffe://user@example.org/a"),
                                std::string("spiffe://example.org:1/a"),
                                std::string("spiffe://example.org/a\n"),
                                std::string("spiffe://example.org/a\0b", 24),
                                std::string("spiffe://example.org/\xc3\xa4"),
                                "spiffe://" + std::string(256, 'a') + "/b",
                                "spiffe://a/" + std::string(2048 - 10, 'b')}) {
    EXPECT_NE(SpiffeIdProblem(id), "") << id;
  }
}

}  // namespace
}  // namespace rdmabroker
